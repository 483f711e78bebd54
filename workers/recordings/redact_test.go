package recordings

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

const secret = "hunter2"

func output(text string) recording.Event {
	return recording.Event{Time: time.Unix(1e9, 0), Code: recording.Output, Data: []byte(text)}
}

// recorded has a recording in which the secret is in all that there is, and across two segments.
func recorded(t *testing.T) *bench {
	b := newBench(t)
	b.begins(nil)
	b.spillsAll(
		recording.Event{Time: time.Unix(1e9, 0), Code: recording.Frame, Data: []byte("20x5\n\x1b[H\x1b[2J\x1b[1Hit is hun\x1b[1mter2")},
		output("one hun\x1b[31mter2 two\r\n\x1b]633;E;echo hunter2\x07"),
		recording.Event{Time: time.Unix(1e9+1, 0), Code: recording.Input, Data: []byte("hunter2\r")},
		output("and hun"),
	)
	b.lists(schemas.TypedCommand{Number: 1, Text: "echo hunter2", Dir: "/x", Began: time.Unix(1, 0), Ended: time.Unix(2, 0)})
	b.spillsAll(output("ter2 across\r\n"), output("nothing in \xff\xfe this\r\n"))
	b.spillsAll(output("untouched\r\n"))
	b.stores()
	b.begins(b.stores())
	b.spillsAll(output("the next run has hunter2\r\n"))
	b.lists(schemas.TypedCommand{Number: 2, Text: "cat hunter2.txt", Dir: "/hunter2", Began: time.Unix(3, 0)})
	b.stores()
	return b
}

const without = "one ***\x1b[31m**** two\r\n\x1b]633;E;echo *******\x07*******\rand *******" + " across\r\nnothing in \xff\xfe this\r\nuntouched\r\nthe next run has *******\r\n"

// all gives what is read of output and input.
func (b *bench) all() (text string, framed []string) {
	b.t.Helper()
	r, err := b.spool.Open(b.t.Context(), b.record, recording.Part{})
	if err != nil {
		b.t.Fatal(err)
	}
	err = r.Each(b.t.Context(), time.Time{}, func(e recording.Event) error {
		if e.Code == recording.Frame {
			framed = append(framed, string(e.Data))
		} else {
			text += string(e.Data)
		}
		return nil
	})
	if err != nil || r.Why() != nil {
		b.t.Fatalf("%v, %v", err, r.Why())
	}
	return text, framed
}

func (b *bench) redacts(expression string, dry bool) (schemas.Redacted, error) {
	return b.spool.Redact(b.t.Context(), b.record, Wanted{Match: regexp.MustCompile(expression), By: "me", Dry: dry})
}

// opened is all that the store has of the recording, decrypted, by names.
func (b *bench) opened() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	var names []string
	err := b.store.List(b.t.Context(), "acme/lin1/recording/", func(i objectstore.Info) error {
		names = append(names, i.Name)
		return nil
	})
	r, openErr := b.spool.Open(b.t.Context(), b.record, recording.Part{})
	if err = errors.Join(err, openErr); err != nil {
		b.t.Fatal(err)
	}
	for _, name := range names {
		in, err := b.store.Store.Get(b.t.Context(), name, 0, -1)
		if err != nil {
			b.t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		in.Close()
		if err != nil {
			b.t.Fatal(err)
		}
		at := bytes.Index(data, []byte("age-encryption.org"))
		if at < 0 {
			out[name] = string(data)
			continue
		}
		run := strings.Split(name, "/")[4]
		key, err := r.key(b.t.Context(), recording.Segment{Ref: recording.Ref{Run: run}})
		if err != nil {
			b.t.Fatal(err)
		}
		opened, err := age.Decrypt(bytes.NewReader(data[at:]), key)
		if err != nil {
			b.t.Fatal(err)
		}
		z, err := zstd.NewReader(opened)
		if err != nil {
			b.t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		z.Close()
		if err != nil {
			b.t.Fatal(err)
		}
		out[name] = string(data[:at]) + string(text)
	}
	return out
}

// clean fails if there is something of the secret in the store.
func (b *bench) clean() {
	b.t.Helper()
	all := b.opened()
	if len(all) < 6 {
		b.t.Fatalf("%d objects", len(all))
	}
	for name, text := range all {
		for _, part := range []string{"hunter2", "hun", "ter2"} {
			if strings.Contains(text, part) {
				b.t.Errorf("%s still has %q: %q", name, part, text)
			}
		}
	}
}

func TestRedact(t *testing.T) {
	b := recorded(t)
	before, _ := b.all()
	dry, err := b.redacts(secret, true)
	if err != nil || dry.Matches != 5 || dry.Commands != 2 || dry.Screens != 1 || dry.Segments != 3 || dry.Running != 2 {
		t.Errorf("it would redact %+v, %v", dry, err)
	}
	if still, _ := b.all(); still != before {
		t.Errorf("a dry run made it %q", still)
	}
	end := b.stores()
	out, err := b.redacts(secret, false)
	if err != nil || !slices.Equal([]int{out.Matches, out.Commands, out.Screens, out.Segments}, []int{5, 2, 1, 3}) {
		t.Errorf("it redacted %+v, %v", out, err)
	}
	text, frames := b.all()
	if text != without || !slices.Equal(frames, []string{"20x5\n\x1b[H\x1b[2J\x1b[1Hit is ***\x1b[1m****"}) {
		t.Errorf("it is %q, %q", text, frames)
	}
	if len(text) != len(before) {
		t.Errorf("it has %d bytes, want %d", len(text), len(before))
	}
	all, err := b.spool.Commands(t.Context(), b.record)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	if err := all.Each(t.Context(), func(c schemas.TypedCommand) error { texts = append(texts, c.Text+" "+c.Dir); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(texts, []string{"cat *******.txt /*******", "echo ******* /x"}) {
		t.Errorf("commands are %q", texts)
	}
	b.clean()

	// An image that was taken before still leads to it, and it goes on.
	b.record.Epoch++
	b.begins(end)
	b.spillsAll(output("more\r\n"))
	b.stores()
	if got, _ := b.all(); got != without+"more\r\n" {
		t.Errorf("then it is %q", got)
	}
	// Once more, with something else.
	if out, err := b.redacts(`across|mor.`, false); err != nil || out.Matches != 2 || out.Segments != 2 {
		t.Errorf("once more: %+v, %v", out, err)
	}
	if got, want := first(b.all()), strings.NewReplacer("across", "******", "more", "****").Replace(without+"more\r\n"); got != want {
		t.Errorf("then it is %q, want %q", got, want)
	}
	b.clean()
	if out, err := b.redacts(`nothing like that`, false); err != nil || out.Found() {
		t.Errorf("what isn't there: %+v, %v", out, err)
	}
	if err := new(recording.Room).Trim(t.Context(), b.store, placeOf(b.record), 1); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.spool.Open(t.Context(), b.record, recording.Part{}); got == nil || len(got.chain.Segments) != 1 {
		t.Errorf("shortened, it isn't read: %+v, %v", got, got.chain.Why)
	}
}

func first(text string, _ []string) string { return text }

// What a session printed after the snapshot to which it was taken back isn't read any more, but it is stored.
func TestRedactOfWhatWasTakenBack(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("before ")
	end := b.stores()
	b.spills("taken back: hunter2 ")
	b.spills("end ")
	b.stores()
	b.begins(end)
	b.spills("after")
	b.stores()
	if out, err := b.redacts(secret, false); err != nil || out.Matches != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	b.wants("before [24]after")
	b.clean1()
}

// A crash leaves all as it was, or all as it is to be, and the next one deletes the rest, also if it finds nothing.
func TestRedactCrashes(t *testing.T) {
	for moment, want := range map[string]bool{"recording.redact.written": false, "recording.redact.counts": true} {
		for _, then := range []string{secret, "nothing like that"} {
			b := recorded(t)
			before, _ := b.all()
			points, err := failpoint.Parse(moment + "=error")
			if err != nil {
				t.Fatal(err)
			}
			b.spool.Failpoints = points
			if _, err := b.redacts(secret, false); !errors.Is(err, failpoint.ErrAsked) {
				t.Fatalf("%s: %v", moment, err)
			}
			b.moves(b.dir) // another process
			b.to = nil
			text, _ := b.all()
			if want && text != without || !want && text != before {
				t.Errorf("after %s it is %q", moment, text)
			}
			if _, err := b.redacts(then, false); err != nil {
				t.Fatalf("%s, then %s: %v", moment, then, err)
			}
			if want || then == secret {
				b.clean()
				if text, _ := b.all(); text != without {
					t.Errorf("then it is %q", text)
				}
				continue
			}
			for name := range b.opened() {
				if strings.Contains(name, ".redacted-") {
					t.Errorf("%s is left", name)
				}
			}
			if text, _ := b.all(); text != before {
				t.Errorf("then it is %q", text)
			}
		}
	}
}

// Of two at a time one is done, and the other is told.
func TestRedactTwice(t *testing.T) {
	b := recorded(t)
	other := *b
	other.moves(t.TempDir())
	raced := false
	b.store.fails = func(name string) (bool, bool) {
		if !raced && strings.Contains(name, "/redaction/") {
			raced = true
			if _, err := other.redacts("two|across", false); err != nil {
				t.Errorf("the other: %v", err)
			}
		}
		return false, false
	}
	if _, err := b.redacts(secret, false); !errors.Is(err, recording.ErrRedacted) {
		t.Errorf("it says %v", err)
	}
	b.store.fails = nil
	if _, err := b.redacts(secret, false); err != nil {
		t.Fatal(err)
	}
	if got, want := first(b.all()), strings.NewReplacer("two", "***", "across", "******").Replace(without); got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	b.clean()
}

// What was stored without a note of it doesn't come back.
func TestRedactedDoesNotComeBack(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("hunter2 ")
	b.store.fails = func(name string) (bool, bool) { return true, strings.Contains(name, "/recording/") }
	if _, err := b.spool.Store(t.Context(), b.record.UID); err == nil {
		t.Fatal("it was stored")
	}
	b.store.fails = nil
	here := b.dir
	b.moves(t.TempDir()) // another host, which finds it in the store
	b.record.State = schemas.Exited
	if out, err := b.redacts(secret, false); err != nil || out.Matches != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	b.moves(here)
	b.stores()
	b.wants("******* ")
	b.clean1()
}

// clean1 is clean of a recording with one segment.
func (b *bench) clean1() {
	b.t.Helper()
	for name, text := range b.opened() {
		if strings.Contains(text, secret) {
			b.t.Errorf("%s still has it", name)
		}
	}
}

// Of a session that is removed nothing is remembered.
func TestRemoveForgetsWhatWasRedacted(t *testing.T) {
	b := recorded(t)
	if len(b.spool.redacted) == 0 {
		t.Error("it isn't known what was redacted")
	}
	if err := b.spool.Remove(t.Context(), b.record.UID); err != nil {
		t.Fatal(err)
	}
	if left := len(b.spool.redacted); left > 0 {
		t.Errorf("it is known of %d runs", left)
	}
}
