package connect

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// recorded is a recording of some output.
type recorded struct {
	text string
	from int64 // position at which it begins
	at   time.Time
	why  error
}

func (r recorded) Why() error { return r.why }

func (recorded) After() error { return nil }

func (r recorded) Span() (start, end int64) { return r.from, r.from + int64(len(r.text)) }

func (r recorded) Each(_ context.Context, since time.Time, fn func(recording.Event) error) error {
	if r.at.Before(since) {
		return nil
	}
	return fn(recording.Event{Time: r.at, Code: recording.Output, Data: []byte(r.text), At: r.from})
}

func (r recorded) Began() time.Time { return r.at }

func (r recorded) From(ctx context.Context, _ time.Time, fn func(recording.Event) error) (bool, error) {
	return true, r.Each(ctx, time.Time{}, fn)
}

// kept is what a session has of its output, and whether it runs.
type kept struct {
	driver.Driver
	t    *testing.T
	log  *backlog.Log
	here bool
}

func (k kept) Dial(context.Context, schemas.UID) (net.Conn, error) {
	if !k.here {
		return nil, driver.ErrNotHere
	}
	ours, theirs := pair(k.t)
	go func() {
		defer theirs.Close()
		r, err := attach.ReadRequest(theirs)
		if err != nil || !r.Positions {
			return
		}
		start, end := k.log.Span()
		at := max(start, r.Seen)
		_ = attach.WriteJSON(theirs, attach.FrameStarted, attach.Taken{At: at})
		for at < end {
			s, b, next, err := k.log.Next(context.Background(), at)
			if err != nil {
				return
			}
			_ = attach.WriteOutput(theirs, s, b)
			at = next
		}
		_ = attach.WriteJSON(theirs, attach.FrameExit, schemas.ExitStatus{Code: 3})
	}()
	return ours, nil
}

// shows asks for the history of a session that was recorded so far, and has kept the rest.
func shows(t *testing.T, rec recorded, recErr error, k kept, h attach.History) (out, errs string, err error) {
	t.Helper()
	s := &Server{Options: Options{
		Recorded: func(context.Context, schemas.SessionRecord, time.Time) (Recording, error) { return rec, recErr },
		Output: func(context.Context, schemas.SessionRecord, string) ([]byte, error) {
			if k.log == nil {
				return nil, errors.New("its output is gone")
			}
			return k.log.Encode(), nil
		},
	}}
	ours, theirs := pair(t)
	failed := make(chan error, 1)
	go func() {
		defer theirs.Close()
		r, err := attach.ReadRequest(theirs)
		if err == nil {
			err = s.showAll(t.Context(), theirs, k, schemas.SessionRecord{UID: "u1", Since: time.Date(2026, 5, 4, 4, 0, 0, 0, time.UTC)}, r)
		}
		failed <- err
	}()
	var stdout, stderr strings.Builder
	_, doErr := attach.Do(ours, attach.Request{Op: attach.OpOutput, Tail: -1, History: &h}, attach.Streams{Stdout: &stdout, Stderr: &stderr})
	return stdout.String(), stderr.String(), errors.Join(<-failed, doErr)
}

// What was recorded and what is kept beside it come without a seam, of a session that runs or sleeps.
func TestHistory(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	log := func(size int, text string) *backlog.Log {
		l := backlog.New(size)
		for _, c := range []byte(text) {
			l.Append(backlog.Out, []byte{c})
		}
		return l
	}
	const text = "one\ntwo\nthree\n"
	for _, here := range []bool{true, false} {
		for recordedTo := range len(text) + 1 {
			rec := recorded{text: text[:recordedTo], at: at}
			out, errs, err := shows(t, rec, nil, kept{t: t, log: log(100, text), here: here}, attach.History{})
			if out != text || errs != "" || err != nil {
				t.Fatalf("recorded to %d, here %t: %q, %q, %v", recordedTo, here, out, errs, err)
			}
		}
		for from := range len(text) { // one that began later, as that of a fork
			rec := recorded{text: text[from : len(text)-1], from: int64(from), at: at}
			out, errs, err := shows(t, rec, nil, kept{t: t, log: log(100, text), here: here}, attach.History{})
			if out != text || errs != "" || err != nil {
				t.Fatalf("recorded from %d, here %t: %q, %q, %v", from, here, out, errs, err)
			}
		}
		out, errs, err := shows(t, recorded{}, errors.New("no key"), kept{t: t, log: log(100, text), here: here}, attach.History{})
		if out != text || !strings.Contains(errs, "no key") || err != nil {
			t.Errorf("without a recording, here %t: %q, %q, %v", here, out, errs, err)
		}
		out, errs, err = shows(t, recorded{text: text, at: at}, nil, kept{t: t, log: log(100, text), here: here}, attach.History{Since: at.Add(time.Second)})
		if out != "" || errs != "" || err != nil {
			t.Errorf("since a later moment: %q, %q, %v", out, errs, err)
		}
		out, _, err = shows(t, recorded{text: text[:5], at: at}, nil, kept{t: t, log: log(100, text), here: here}, attach.History{Times: true})
		if !strings.HasPrefix(out, "2026-05-04T03:02:01.000Z one\n2026-05-04T03:02:01.000Z two\n") || strings.Count(out, "Z ") != 3 || err != nil {
			t.Errorf("with times: %q, %v", out, err)
		}
	}
	out, _, err := shows(t, recorded{}, nil, kept{t: t, log: log(100, text), here: true}, attach.History{Times: true})
	if !strings.HasPrefix(out, "-                        one\n-                        two\n") || err != nil {
		t.Errorf("with times, of what wasn't recorded: %q, %v", out, err)
	}
	// Everything was recorded and nothing else is left.
	if out, errs, err := shows(t, recorded{text: text, at: at, why: objectstore.ErrNotFound}, nil, kept{t: t}, attach.History{}); out != text || !strings.Contains(errs, "isn't kept") || err != nil {
		t.Errorf("%q, %q, %v", out, errs, err)
	}
	// The events come with what is said of them.
	for why, want := range map[error]string{objectstore.ErrNotFound: "isn't kept", errors.New("no key"): "from its beginning: no key"} {
		for _, h := range []attach.History{{Events: true}, {Events: true, Framed: true, Since: at}} {
			out, errs, err := shows(t, recorded{text: text, at: at, why: why}, nil, kept{t: t}, h)
			if !strings.Contains(out, "three") || !strings.Contains(errs, want) || err != nil {
				t.Errorf("events: %q, %q, %v", out, errs, err)
			}
		}
	}
	// A part is in neither.
	missing, err := backlog.Decode(append([]byte{0, 0, 0, 0, 0, 0, 0, 8, 1, 0, 0, 0, 6}, "three\n"...), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, here := range []bool{true, false} {
		out, errs, err := shows(t, recorded{text: "one\n", at: at}, nil, kept{t: t, log: missing, here: here}, attach.History{})
		if out != "one\nthree\n" || !strings.Contains(errs, "4 bytes of output were not recorded") || err != nil {
			t.Errorf("with a gap, here %t: %q, %q, %v", here, out, errs, err)
		}
	}
}
