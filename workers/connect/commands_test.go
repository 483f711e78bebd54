package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// typedOf is a list of commands of which some are missing.
type typedOf struct {
	all     []schemas.TypedCommand
	dropped int
	why     error
}

func (c typedOf) Each(_ context.Context, fn func(schemas.TypedCommand) error) error {
	for _, one := range slices.Backward(c.all) {
		if err := fn(one); err != nil {
			return err
		}
	}
	return nil
}

func (c typedOf) Missing() (dropped, lists int, why error) { return c.dropped, 0, c.why }

// fetches asks for commands, or the output of one.
func fetches(t *testing.T, all typedOf, rec recorded, h attach.History) (out, errs string, err error) {
	t.Helper()
	s := &Server{Options: Options{
		Commands: func(context.Context, schemas.SessionRecord) (Commands, error) { return all, nil },
		Spec: func(schemas.SessionRecord) (schemas.Spec, error) {
			return schemas.Spec{Command: []string{"bash"}, Dir: "/first", Env: []string{"A=b"}}, nil
		},
		RecordedFrom: func(context.Context, schemas.SessionRecord, int64) (Recording, error) { return rec, nil },
	}}
	ours, theirs := pair(t)
	go func() {
		defer theirs.Close()
		r, err := attach.ReadRequest(theirs)
		if err == nil {
			err = s.showAll(t.Context(), theirs, kept{t: t}, schemas.SessionRecord{Tenant: "acme", Session: "work", UID: "u1"}, r)
		}
		if err != nil {
			_ = attach.WriteError(theirs, err.Error())
		}
	}()
	var stdout, stderr strings.Builder
	err = attach.FetchKept(ours, h, attach.Streams{Stdout: &stdout, Stderr: &stderr}, func(c schemas.TypedCommand) { fmt.Fprintf(&stderr, "(%d)", c.Number) })
	return stdout.String(), stderr.String(), err
}

func TestCommands(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	all := typedOf{all: []schemas.TypedCommand{
		{Number: 1, From: 5, To: 8, Ended: at}, {Number: 2, From: 12, To: 15, Ended: at}, {Number: 3, From: 15, To: 30, Ended: at}, {Number: 5, From: 18},
	}}
	rec := recorded{text: "0123456789", from: 10, at: at}
	for n, want := range map[int64]struct{ out, errs, err string }{
		1: {"", "", "the output of command 1 isn't kept any more"},
		2: {"234", "(2)", ""},
		3: {"56789", "(3)diapause: the rest of the output isn't recorded yet, or can't be read\n", ""},
		4: {"", "", "has no command 4"},
		5: {"89", "(5)", ""},
	} {
		out, errs, err := fetches(t, all, rec, attach.History{Command: n})
		if out != want.out || errs != want.errs || want.err == "" && err != nil || !strings.Contains(fmt.Sprint(err), want.err) {
			t.Errorf("command %d: %q, %q, %v", n, out, errs, err)
		}
	}
	all.all[0].To = 11
	if out, errs, err := fetches(t, all, rec, attach.History{Command: 1}); out != "0" || errs != "(1)diapause: 5 bytes of output were not recorded\n" || err != nil {
		t.Errorf("of a part: %q, %q, %v", out, errs, err)
	}
	all.dropped = 7
	for lines, want := range map[int]string{2: "5 3 ", -1: "5 3 2 1 ", math.MaxInt: "5 3 2 1 "} {
		out, errs, err := fetches(t, all, rec, attach.History{Commands: lines})
		got := ""
		for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
			var c schemas.TypedCommand
			if err := dec.Decode(&c); err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprint(c.Number, " ")
		}
		if got != want || !strings.Contains(errs, "7 commands were not kept") || err != nil {
			t.Errorf("%d of them: %q, %q, %v", lines, got, errs, err)
		}
	}
}

// That older commands were deleted is no error.
func TestShortenedCommands(t *testing.T) {
	all := typedOf{all: []schemas.TypedCommand{{Number: 3}}, why: errors.New("older ones were deleted")}
	if out, errs, err := fetches(t, all, recorded{}, attach.History{Commands: -1}); out == "" || errs != "diapause: older ones were deleted\n" || err != nil {
		t.Errorf("%q, %q, %v", out, errs, err)
	}
	if _, _, err := fetches(t, all, recorded{}, attach.History{Command: 2}); err == nil || !strings.Contains(err.Error(), "or it wasn't kept") {
		t.Errorf("one of them: %v", err)
	}
}

// A host that is older sends something else: that isn't taken for commands.
func TestOlderHost(t *testing.T) {
	for _, last := range []byte{attach.FrameExit, attach.FrameStarted} {
		ours, theirs := pair(t)
		go func() {
			defer theirs.Close()
			if _, err := attach.ReadRequest(theirs); err == nil {
				_ = attach.WriteFrame(theirs, last, nil)
				_ = attach.WriteFrame(theirs, attach.FrameStdout, []byte("all output"))
			}
		}()
		var out strings.Builder
		if err := attach.FetchKept(ours, attach.History{Commands: -1}, attach.Streams{Stdout: &out}, nil); !errors.Is(err, attach.ErrOlder) || out.Len() > 0 {
			t.Errorf("it is %q, %v", out.String(), err)
		}
	}
}
