package turns

import "testing"

func TestParseLimits(t *testing.T) {
	all := DefaultLimits()
	for text, want := range map[string]Limits{
		"":                  all,
		"count=3":           {3, all.Bytes},
		"memory=2G":         {all.Count, 2 << 30},
		"count=0,memory=0":  {},
		"count=1,memory=1K": {1, 1 << 10},
	} {
		if got, err := ParseLimits(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"count=-1", "count=x", "memory=x", "3", "ops=3"} {
		if got, err := ParseLimits(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}
