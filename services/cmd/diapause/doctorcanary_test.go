package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/diapause/diapause/services/doctor"
	"github.com/diapause/diapause/workers/canary"
)

// A machine whose own root can't be captured, as a container's, runs sessions with other roots. What fails with
// both is what the machine lacks.
func TestCanaryFinding(t *testing.T) {
	root, lacks := errors.New("can't lookup mount"), errors.New("can't open sysctl")
	for what, c := range map[string]struct {
		first, own error
		status     doctor.Status
		text       string
	}{
		"all of it":           {nil, lacks, doctor.OK, "restored in"},
		"not with its root":   {root, nil, doctor.Warn, "can't lookup mount"},
		"not with any other":  {root, lacks, doctor.Fail, "can't open sysctl"},
		"nor with its root":   {root, lacks, doctor.Fail, "can't lookup mount"},
		"its hint":            {root, nil, doctor.Warn, "run --root DIR"},
		"restored in the end": {root, nil, doctor.Warn, "restored in"},
	} {
		got := canaryFinding(func(own bool) (canary.Report, error) {
			if own {
				return canary.Report{Attempts: 1}, c.own
			}
			return canary.Report{Attempts: 1}, c.first
		})
		if got.Status != c.status || !strings.Contains(got.Detail+got.Fix, c.text) {
			t.Errorf("%s: %+v, want %s with %q", what, got, c.status, c.text)
		}
	}
}
