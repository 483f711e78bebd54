package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

func TestExitedWith(t *testing.T) {
	zero, two := 0, 2
	for exit, want := range map[string][3]bool{"": {true, true, true}, attach.Nonzero: {false, false, true}, "0": {false, true, false}, "2": {false, false, true}, "3": {}} {
		for i, status := range []*int{nil, &zero, &two} {
			if got := attach.ExitedWith(schemas.TypedCommand{Exit: status}, exit); got != want[i] {
				t.Errorf("--exit %q, command %d: %t", exit, i, got)
			}
		}
	}
}

// Commands are read while they come, and no more than are wanted.
func TestLastCommands(t *testing.T) {
	for lines, want := range map[int]struct {
		exit string
		most int64
		got  string
		more bool
	}{2: {"", 100, "99 100 ", true}, 3: {"2", 100, "92 95 98 ", true}, 4: {"", 4, "1 2 3 4 ", false}, allLines: {"", 3, "1 2 3 ", false}} {
		answer, to := io.Pipe()
		sent := make(chan int64)
		go func() {
			n := want.most
			for ; n > 0; n-- {
				status := int(n % 3)
				if json.NewEncoder(to).Encode(schemas.TypedCommand{Number: n, Exit: &status}) != nil {
					break
				}
			}
			to.Close()
			sent <- n
		}()
		all, more, err := lastCommands(answer, lines, want.exit)
		answer.Close()
		got := ""
		for _, c := range all {
			got += fmt.Sprint(c.Number, " ")
		}
		if left := <-sent; got != want.got || more != want.more || err != nil || want.more && left < want.most/2 {
			t.Errorf("%d of them are %q, %t, %v; %d weren't read", lines, got, more, err, left)
		}
	}
	if _, _, err := lastCommands(strings.NewReader("{}junk"), 5, ""); err == nil {
		t.Error("junk is read")
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
