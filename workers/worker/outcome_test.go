package worker

import (
	"fmt"
	"reflect"
	"testing"
)

// allFacts calls fn with each combination of facts.
func allFacts(fn func(f facts)) {
	n := reflect.TypeFor[facts]().NumField()
	for bits := range 1 << n {
		var f facts
		v := reflect.ValueOf(&f).Elem()
		for i := range n {
			if bits>>i&1 == 1 {
				field := v.Field(i)
				reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().SetBool(true)
			}
		}
		fn(f)
	}
}

// The rules, the first that holds for some facts decides.
func TestOutcomes(t *testing.T) {
	rules := []struct {
		name string
		when func(f facts) bool
		want outcome
		hits int
	}{
		{name: "no error", when: func(f facts) bool { return !f.failed }, want: succeeded},
		{name: "no answer to the swap", when: func(f facts) bool { return f.unknown }, want: noteUnknown},
		{name: "no lease", when: func(f facts) bool { return f.unleased }, want: noteUnknown},
		{name: "the worker stops", when: func(f facts) bool { return f.stopping }, want: lookAgain},
		{name: "the record moved on", when: func(f facts) bool { return f.moved }, want: lookAgain},
		{name: "it runs all the same", when: func(f facts) bool { return f.recorded && f.here }, want: lookAgain},
		{name: "the driver can't say yet", when: func(f facts) bool { return f.recorded && f.unheard }, want: noteUnknown},
		{name: "recorded, and never ran", when: func(f facts) bool { return f.recorded && f.neverRan }, want: takeBack},
		{name: "recorded, and may have run", when: func(f facts) bool { return f.recorded }, want: recordLost},
		{name: "a fork without its origin", when: func(f facts) bool { return f.orphan }, want: removeOrphan},
		{name: "it may pass", when: func(f facts) bool { return f.passing }, want: retry},
		{name: "it failed", when: func(facts) bool { return true }, want: recordFailed},
	}
	seen := 0
	allFacts(func(f facts) {
		seen++
		for i := range rules {
			r := &rules[i]
			if !r.when(f) {
				continue
			}
			r.hits++
			if got := outcomeOf(f); got != r.want {
				t.Errorf("%s: outcome %d of %+v, want %d", r.name, got, f, r.want)
			}
			return
		}
	})
	if want := 1 << reflect.TypeFor[facts]().NumField(); seen != want {
		t.Errorf("%d combinations were tried, want %d", seen, want)
	}
	for _, r := range rules {
		if r.hits == 0 {
			t.Errorf("no facts lead to the rule %q", r.name)
		}
	}
}

// These hold for any facts, in any order of the rules.
func TestOutcomesAreSafe(t *testing.T) {
	allFacts(func(f facts) {
		got := outcomeOf(f)
		begins := got == takeBack || got == retry || got == recordFailed || got == removeOrphan
		for what, bad := range map[string]bool{
			"twice: it may run already":              begins && f.recorded && !f.neverRan,
			"twice: it is here":                      begins && f.recorded && f.here,
			"twice: the record may say that it runs": begins && f.unknown,
			"lost: it is here":                       got == recordLost && f.here,
			"lost: no record says that it runs":      got == recordLost && !f.recorded,
			"lost: it may be here":                   got == recordLost && f.unheard,
			"decided without being the owner":        f.failed && f.moved && got != lookAgain && got != noteUnknown,
			"decided while stopping":                 f.failed && f.stopping && got != lookAgain && got != noteUnknown,
			"an error taken for success":             f.failed && got == succeeded,
		} {
			if bad {
				t.Error(fmt.Sprintf("%s: outcome %d", what, got), f)
			}
		}
	})
}
