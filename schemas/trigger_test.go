package schemas_test

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestTriggers(t *testing.T) {
	for _, c := range []struct {
		words   schemas.Triggers
		trigger schemas.Trigger
		action  string
		want    bool
	}{
		{nil, schemas.TriggerManual, "", false},
		{schemas.Triggers{"manual"}, schemas.TriggerManual, "", true},
		{schemas.Triggers{"manual"}, schemas.TriggerRunStart, "", false},
		{schemas.Triggers{"run_boundaries"}, schemas.TriggerRunStart, "", true},
		{schemas.Triggers{"run_boundaries"}, schemas.TriggerRunEnd, "", true},
		{schemas.Triggers{"run_boundaries"}, schemas.TriggerAfter, "", false},
		{schemas.Triggers{"every_action"}, schemas.TriggerAfter, "", true},
		{schemas.Triggers{"every_action"}, schemas.TriggerAfter, "edit", true},
		{schemas.Triggers{"every_action"}, schemas.TriggerBefore, "edit", false},
		{schemas.Triggers{"before"}, schemas.TriggerBefore, "edit", true},
		{schemas.Triggers{"before:deploy"}, schemas.TriggerBefore, "deploy", true},
		{schemas.Triggers{"before:deploy"}, schemas.TriggerBefore, "deploy2", false},
		{schemas.Triggers{"before:deploy"}, schemas.TriggerBefore, "", false},
		{schemas.Triggers{"before:deploy"}, schemas.TriggerAfter, "deploy", false},
		{schemas.Triggers{"run_end", "after:deploy"}, schemas.TriggerAfter, "deploy", true},
	} {
		if err := c.words.Validate(); err != nil {
			t.Errorf("%v: %v", c.words, err)
		}
		if got := c.words.Want(c.trigger, c.action); got != c.want {
			t.Errorf("%v wants %s %q: %t, want %t", c.words, c.trigger, c.action, got, c.want)
		}
	}
	long := make([]byte, 65)
	for i := range long {
		long[i] = 'a'
	}
	for _, wrong := range []string{"", "idle", "run_start:x", "before:", "every_action:x", "manual:now", "before:" + string(long), "Run_start"} {
		if err := (schemas.Triggers{"manual", wrong}).Validate(); err == nil {
			t.Errorf("%q is valid", wrong)
		}
	}
}

// The subject of an agent's word carries a trigger that there is.
func TestAgentSubjects(t *testing.T) {
	n := schemas.Name{Tenant: "acme", Session: "web-42"}
	for _, trigger := range []schemas.Trigger{schemas.TriggerRunStart, schemas.TriggerRunEnd, schemas.TriggerBefore, schemas.TriggerAfter, schemas.TriggerManual} {
		src, err := schemas.ParseActivitySubject(schemas.ActivitySubject(n, schemas.KindAgent, string(trigger)))
		if err != nil || src.Name != n || src.Kind != schemas.KindAgent || src.Key != string(trigger) {
			t.Errorf("%s: %+v, %v", trigger, src, err)
		}
	}
	for _, wrong := range []string{"", "tea", "run_boundaries", "run_start.x"} {
		if src, err := schemas.ParseActivitySubject(schemas.ActivitySubject(n, schemas.KindAgent, wrong)); err == nil {
			t.Errorf("agent.%s is one: %+v", wrong, src)
		}
	}
	a, err := schemas.ParseActivity([]byte(`{"run_id":"r-1\u001b[2J","action":"deploy\n","reason":"x"}`))
	if err != nil || a.RunID != "r-1[2J" || a.Action != "deploy" {
		t.Errorf("what isn't fit to be shown stays: %+v, %v", a, err)
	}
}
