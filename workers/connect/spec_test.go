package connect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// How a session is run comes with the directory that its shell said last that it is in.
func TestSpecInTheLastDirectory(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	ended := schemas.TypedCommand{Number: 1, Dir: "/work", From: 10, To: 20, Ended: at}
	runs := schemas.TypedCommand{Number: 1, Dir: "/work", From: 10}
	for name, c := range map[string]struct {
		all  []schemas.TypedCommand
		rec  recorded
		want string
	}{
		"no commands":           {nil, recorded{}, "/first"},
		"stayed":                {[]schemas.TypedCommand{ended}, recorded{text: "ready:", from: 20, at: at}, "/work"},
		"went":                  {[]schemas.TypedCommand{ended}, recorded{text: "\x1b]633;P;Cwd=/else where\aready:", from: 20, at: at}, "/else where"},
		"by a URL":              {[]schemas.TypedCommand{ended}, recorded{text: "\x1b]7;file://h/a%20b\aready:", from: 20, at: at}, "/a b"},
		"from another's output": {[]schemas.TypedCommand{ended}, recorded{text: "\x1b]7;file://h/x\a" + "\x1b]7;file://h/y\a", from: 5, at: at}, "/y"},
		"none of ours":          {[]schemas.TypedCommand{ended}, recorded{text: "\x1b]7;http://h/x\a\x1b]633;P;Cwd=x\a", from: 20, at: at}, "/work"},
		"runs":                  {[]schemas.TypedCommand{runs}, recorded{text: "output", from: 10, at: at}, "/work"},
		"nothing is recorded":   {[]schemas.TypedCommand{runs}, recorded{}, "/work"},
	} {
		out, errs, err := fetches(t, typedOf{all: c.all}, c.rec, attach.History{Spec: true})
		var got schemas.Spec
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v, %q", name, err, out)
		}
		if got.Dir != c.want || got.Command[0] != "bash" || got.Env[0] != "A=b" || errs != "" || err != nil {
			t.Errorf("%s: %+v, %q, %v", name, got, errs, err)
		}
	}
}

// A host that doesn't know the question answers another one: that isn't taken for a spec.
func TestSpecOfAnOlderHost(t *testing.T) {
	ours, theirs := pair(t)
	go func() {
		defer theirs.Close()
		if _, err := attach.ReadRequest(theirs); err == nil {
			_ = attach.WriteJSON(theirs, attach.FrameStarted, attach.Kept{Commands: true})
			_ = attach.WriteFrame(theirs, attach.FrameStdout, []byte("all output"))
		}
	}()
	var out strings.Builder
	if err := attach.FetchKept(ours, attach.History{Spec: true}, attach.Streams{Stdout: &out}, nil); !errors.Is(err, attach.ErrOlder) || out.Len() > 0 {
		t.Errorf("it is %q, %v", out.String(), err)
	}
}
