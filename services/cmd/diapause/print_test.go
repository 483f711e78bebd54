package main

import "testing"

func TestCount(t *testing.T) {
	for what, want := range map[string]string{
		"key": "2 keys", "entry": "2 entries", "process": "2 processes", "session": "2 sessions",
	} {
		if got := count(2, what); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := count(1, what); got != "1 "+what {
			t.Errorf("%q", got)
		}
	}
}
