package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// fixed is a check with a known outcome, that counts its runs.
func fixed(name string, status Status, runs *[]string, needs ...string) Check {
	return Check{Name: name, What: "it is " + name, Needs: needs, Run: func(context.Context) Result {
		*runs = append(*runs, name)
		r := Result{Status: status, Detail: "found " + name}
		if status == Warn || status == Fail {
			r.Fix = "mend " + name
		}
		return r
	}}
}

func ignore(Finding) {}

func TestWhatDependsOnAFailureIsSkipped(t *testing.T) {
	var runs []string
	checks := []Check{
		fixed("a", OK, &runs), fixed("b", Fail, &runs), fixed("c", Warn, &runs, "a"),
		fixed("d", OK, &runs, "a", "b"), fixed("e", OK, &runs, "d"), fixed("f", OK, &runs, "c"), fixed("g", Skipped, &runs), fixed("h", OK, &runs, "g"),
	}
	var told []string
	report, err := Run(t.Context(), "v1", checks, func(f Finding) { told = append(told, f.Name) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c", "f", "g"}; !slices.Equal(runs, want) {
		t.Errorf("carried out %v, want %v", runs, want)
	}
	if len(told) != len(checks) || report.OK || report.Version != "v1" {
		t.Errorf("told %v, ok %v, version %q", told, report.OK, report.Version)
	}
	for name, want := range map[string]struct {
		status Status
		detail string
	}{
		"a": {OK, "found a"}, "b": {Fail, "found b"}, "c": {Warn, "found c"},
		"d": {Skipped, "what failed above: b"}, "e": {Skipped, "what was skipped above: d"},
		"f": {OK, "found f"}, "h": {Skipped, "what was skipped above: g"},
	} {
		f := report.Checks[slices.IndexFunc(report.Checks, func(f Finding) bool { return f.Name == name })]
		if f.Status != want.status || !strings.Contains(f.Detail, want.detail) {
			t.Errorf("%s is %s, %q; want %s, %q", name, f.Status, f.Detail, want.status, want.detail)
		}
	}
}

func TestWarningsAndSkipsAreNoFailure(t *testing.T) {
	var runs []string
	report, err := Run(t.Context(), "", []Check{fixed("a", Warn, &runs), fixed("b", Skipped, &runs)}, ignore)
	if err != nil || !report.OK {
		t.Errorf("ok %v, %v; want that nothing failed", report.OK, err)
	}
}

func TestAListThatIsWrong(t *testing.T) {
	var runs []string
	for says, checks := range map[string][]Check{
		"twice":              {fixed("a", OK, &runs), fixed("a", OK, &runs)},
		"doesn't come befor": {fixed("a", OK, &runs, "b"), fixed("b", OK, &runs)},
	} {
		if _, err := Run(t.Context(), "", checks, ignore); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("run: %v, want an error that says %q", err, says)
		}
	}
	if len(runs) > 0 {
		t.Errorf("%v were carried out", runs)
	}
}

func TestACheckThatSaysNothingFails(t *testing.T) {
	silent := Check{Name: "a", Run: func(context.Context) Result { return Result{} }}
	report, err := Run(t.Context(), "", []Check{silent}, ignore)
	if err != nil || report.OK || report.Checks[0].Status != Fail || report.Checks[0].Fix == "" {
		t.Errorf("%+v, %v; want a failure", report, err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var runs []string
	first := Check{Name: "a", Run: func(ctx context.Context) Result {
		cancel()
		return failed(ctx.Err(), "don't")
	}}
	report, err := Run(ctx, "", []Check{first, fixed("b", OK, &runs)}, ignore)
	if err != nil || report.OK || len(runs) > 0 || report.Checks[0].Status != Skipped || report.Checks[1].Status != Skipped {
		t.Errorf("%+v, %v; want both skipped, and no success", report, err)
	}
	if got := report.Summary(); !strings.HasPrefix(got, "Interrupted") {
		t.Errorf("summary %q", got)
	}
}

func TestACheckHasALimit(t *testing.T) {
	report, err := Run(t.Context(), "", []Check{{Name: "a", Run: func(ctx context.Context) Result {
		end, ok := ctx.Deadline()
		if !ok || time.Until(end) > checkLimit {
			return failed(errors.New("no limit"), "set one")
		}
		return okf("limited")
	}}}, ignore)
	if err != nil || !report.OK {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestJSONNamesAreStable(t *testing.T) {
	report := Report{OK: true, Version: "v", At: time.Unix(0, 0).UTC(), Checks: []Finding{{
		Name: "n", What: "w", Status: Warn, Detail: "d", Fix: "f", Needs: []string{"x"}, TookMS: 3, Measured: map[string]int64{"write_ms": 4},
	}}}
	got, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"ok":true,"version":"v","at":"1970-01-01T00:00:00Z","checks":[{"name":"n","what":"w","status":"warn","detail":"d","fix":"f","needs":["x"],"took_ms":3,"measured":{"write_ms":4}}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestText(t *testing.T) {
	var runs []string
	checks := []Check{fixed("short", OK, &runs), fixed("much-longer", Fail, &runs), fixed("last", OK, &runs, "much-longer")}
	var text strings.Builder
	report, err := Run(t.Context(), "", checks, TextWriter(&text, checks))
	if err != nil {
		t.Fatal(err)
	}
	const want = `ok       short        found short
fail     much-longer  found much-longer
                      → mend much-longer
skipped  last         it needs what failed above: much-longer
`
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
	if got, want := report.Summary(), "Diapause can't run here as it is (3 checks: 1 ok, 1 failed, 1 skipped)"; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}
