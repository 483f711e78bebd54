package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	OK      Status = "ok"
	Warn    Status = "warn"    // it works, with less than there could be
	Fail    Status = "fail"    // something that is needed doesn't work
	Skipped Status = "skipped" // not tried: what it needs failed, or it isn't needed here
)

// Check proves one thing.
type Check struct {
	Name  string   // short, of a-z, 0-9 and "-"; it doesn't change
	What  string   // what is proved, for a person
	Needs []string // names of earlier checks without which this one makes no sense
	Run   func(ctx context.Context) Result
}

// Result is what a check found.
type Result struct {
	Status   Status
	Detail   string           // what was found, for a person
	Fix      string           // what to do, for a person; set if Status is Warn or Fail
	Measured map[string]int64 // numbers by name, the unit at the end of the name
}

// Finding is the outcome of one check. Its JSON names are stable.
type Finding struct {
	Name     string           `json:"name"`
	What     string           `json:"what"`
	Status   Status           `json:"status"`
	Detail   string           `json:"detail"`
	Fix      string           `json:"fix,omitempty"`
	Needs    []string         `json:"needs,omitempty"`
	TookMS   int64            `json:"took_ms"`
	Measured map[string]int64 `json:"measured,omitempty"`
}

// Report is the outcome of all checks. Its JSON names are stable.
type Report struct {
	OK      bool      `json:"ok"` // nothing failed
	Version string    `json:"version"`
	At      time.Time `json:"at"` // when it began
	Checks  []Finding `json:"checks"`
}

// checkLimit bounds one check.
const checkLimit = 90 * time.Second

// Run carries the checks out in order and tells each finding as it is there. An
// error means that the list itself is wrong: a name occurs twice, or a check needs
// one that doesn't come before it. When ctx ends, the rest is skipped.
func Run(ctx context.Context, version string, checks []Check, tell func(Finding)) (Report, error) {
	report := Report{OK: true, Version: version, At: time.Now().UTC().Truncate(time.Second)}
	if err := verify(checks); err != nil {
		return report, err
	}
	found := make(map[string]Status, len(checks))
	for _, c := range checks {
		began := time.Now()
		result := skip(ctx, c, found)
		if result.Status == "" {
			result = carryOut(ctx, c)
		}
		f := Finding{
			Name: c.Name, What: c.What, Needs: c.Needs, TookMS: time.Since(began).Milliseconds(),
			Status: result.Status, Detail: result.Detail, Fix: result.Fix, Measured: result.Measured,
		}
		found[c.Name] = f.Status
		report.OK = report.OK && f.Status != Fail
		report.Checks = append(report.Checks, f)
		tell(f)
	}
	if ctx.Err() != nil {
		report.OK = false // what was skipped isn't known
	}
	return report, nil
}

func verify(checks []Check) error {
	seen := make(map[string]bool, len(checks))
	for _, c := range checks {
		if seen[c.Name] {
			return fmt.Errorf("check %q is in the list twice", c.Name)
		}
		for _, need := range c.Needs {
			if !seen[need] {
				return fmt.Errorf("check %q needs %q, which doesn't come before it", c.Name, need)
			}
		}
		seen[c.Name] = true
	}
	return nil
}

// skip says why a check is not carried out; its Status is empty if it is.
func skip(ctx context.Context, c Check, found map[string]Status) Result {
	if ctx.Err() != nil {
		return Result{Status: Skipped, Detail: "interrupted"}
	}
	var failed, skipped []string
	for _, need := range c.Needs {
		switch found[need] {
		case Fail:
			failed = append(failed, need)
		case Skipped:
			skipped = append(skipped, need)
		}
	}
	switch {
	case len(failed) > 0:
		return Result{Status: Skipped, Detail: "it needs what failed above: " + strings.Join(failed, ", ")}
	case len(skipped) > 0:
		return Result{Status: Skipped, Detail: "it needs what was skipped above: " + strings.Join(skipped, ", ")}
	}
	return Result{}
}

// carryOut runs a check. One that says nothing proved nothing.
func carryOut(ctx context.Context, c Check) Result {
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	result := c.Run(limited)
	if ctx.Err() != nil && result.Status == Fail {
		return Result{Status: Skipped, Detail: "interrupted: " + result.Detail}
	}
	if result.Status == "" {
		return Result{Status: Fail, Detail: "the check gave no result", Fix: "this is a fault of Diapause: report it"}
	}
	return result
}

// okf is a result for what works.
func okf(format string, args ...any) Result {
	return Result{Status: OK, Detail: fmt.Sprintf(format, args...)}
}

// failed is a result for an error.
func failed(err error, fix string) Result {
	return Result{Status: Fail, Detail: err.Error(), Fix: fix}
}
