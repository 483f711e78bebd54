package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestExitedWith(t *testing.T) {
	zero, two := 0, 2
	for exit, want := range map[string][3]bool{"": {true, true, true}, nonzero: {false, false, true}, "0": {false, true, false}, "2": {false, false, true}, "3": {}} {
		for i, status := range []*int{nil, &zero, &two} {
			if got := exitedWith(schemas.TypedCommand{Exit: status}, exit); got != want[i] {
				t.Errorf("--exit %q, command %d: %t", exit, i, got)
			}
		}
	}
}

// A command takes one row, and a terminal obeys nothing in its text.
func TestRowOf(t *testing.T) {
	row := rowOf(schemas.TypedCommand{Text: "for i\ndo\techo \x1b[31m\u202e; done", Cut: true})
	if text := clean(row); text != `for i\ndo echo \u001b[31m\u202e; done ...` {
		t.Errorf("it is %q", text)
	}
}

// Output is written in whole characters, and its last line has an end.
func TestPlainText(t *testing.T) {
	var out bytes.Buffer
	pieces := writerFunc(func(p []byte) (int, error) { return out.Write([]byte(clean(string(p)))) })
	text := &textOnly{to: pieces}
	for _, b := range []byte("\x1b[1mü日\x1b[0m\u202e\r\nlast") {
		if _, err := io.Copy(text, bytes.NewReader([]byte{b})); err != nil {
			t.Fatal(err)
		}
	}
	if err := text.end(); err != nil || out.String() != "ü日\\u202e\nlast\n" {
		t.Errorf("it is %q, %v", out.String(), err)
	}
}
