package main

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

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

func TestStages(t *testing.T) {
	for want, list := range map[string][]schemas.Stage{
		"":                                 nil,
		"open 5ms, fetch 1ms, restore 7ms": {{Name: "open", MS: 5}, {Name: "fetch", MS: 1}, {Name: "restore", MS: 7}},
		"open 5ms + fill 2ms = restore 7ms": {
			{Name: "open", MS: 5, Part: true}, {Name: "fill", MS: 2, Part: true}, {Name: "fetch", MS: 1}, {Name: "restore", MS: 7}},
		"freeze 1ms + capture 2ms = durable 3ms, frozen 2ms, memory 2ms": {
			{Name: "freeze", MS: 1, Part: true}, {Name: "capture", MS: 2, Part: true}, {Name: "frozen", MS: 2}, {Name: "durable", MS: 3}, {Name: "memory", MS: 2}},
	} {
		if got := stages(list); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
