package script

import (
	"regexp"
	"strings"
	"testing"
)

// between parts the causes of an error.
var between = regexp.MustCompile(`: |; `)

// saidTwice gives what a line of an error says twice: two causes that are the same, or one
// that begins with all of an earlier one, as in "session work: session work is suspended".
// Single words are no causes.
func saidTwice(text string) string {
	for line := range strings.Lines(text) {
		causes := between.Split(strings.TrimSpace(line), -1)
		for i, cause := range causes {
			if !strings.Contains(cause, " ") {
				continue
			}
			for _, later := range causes[i+1:] {
				if later == cause || strings.HasPrefix(later, cause+" ") {
					return cause
				}
			}
		}
	}
	return ""
}

func TestSaidTwice(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"diapause: session work: session work is suspended\n":                           "session work",
		"diapause: suspend session work: the store is full: the store is full\n":        "the store is full",
		"diapause: a: it failed; b: it failed\nhint: free space\n":                      "it failed",
		"diapause: no session work\nhint: see `diapause ls`\n":                          "",
		"diapause: session work: not now\ndiapause: session other: not now\n":           "",
		"diapause: --timeout -1s: want a time above 0, e.g. 30s\nhint: --timeout 30s\n": "",
		"diapause: open x: open x: no such file":                                        "open x",
	} {
		if got := saidTwice(text); got != want {
			t.Errorf("of %q %q is said twice, want %q", text, got, want)
		}
	}
}
