package sense

import (
	"testing"
	"time"
)

// What looks say of a session: each is the CPU time that it has used, the snapshot that it has and whether an operation
// is under way, and whether it is unchanged since that snapshot then.
func TestAge(t *testing.T) {
	type look struct {
		cpu, snapshot int
		busy, want    bool
	}
	for name, looks := range map[string][]look{
		"no snapshot":                      {{1, 0, false, false}, {1, 0, false, false}},
		"idle before and after":            {{1, 0, false, false}, {1, 0, false, false}, {5, 1, false, true}, {5, 1, false, true}},
		"a look during the capture":        {{1, 0, false, false}, {1, 0, false, false}, {3, 0, true, false}, {5, 1, false, true}, {5, 1, false, true}},
		"busy before, idle after":          {{1, 0, false, false}, {2, 0, false, false}, {5, 1, false, false}, {5, 1, false, false}, {5, 1, false, false}},
		"and captured once more":           {{1, 0, false, false}, {2, 0, false, false}, {5, 1, false, false}, {5, 1, false, false}, {9, 2, false, true}, {9, 2, false, true}},
		"changed once":                     {{1, 0, false, false}, {1, 0, false, false}, {5, 1, false, true}, {6, 1, false, false}, {6, 1, false, false}},
		"first seen with a snapshot":       {{5, 1, false, false}, {5, 1, false, false}},
		"first seen while it is captured":  {{5, 0, true, false}, {7, 1, false, false}},
		"a capture that failed uses CPU":   {{1, 0, false, false}, {1, 0, false, false}, {5, 1, false, true}, {5, 1, true, true}, {8, 1, false, false}},
		"idle, captured twice, then works": {{1, 0, false, false}, {1, 0, false, false}, {5, 1, false, true}, {9, 2, false, true}, {10, 2, false, false}},
	} {
		var last age
		for i, l := range looks {
			a := age{cpu: time.Duration(l.cpu)}
			if l.snapshot > 0 {
				a.snapshot = time.Unix(int64(l.snapshot), 0)
			}
			last = a.after(last, i > 0, l.busy)
			if last.unchanged != l.want {
				t.Errorf("%s: look %d says unchanged: %v, want %v", name, i+1, last.unchanged, l.want)
			}
		}
	}
}
