package shim

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/redact"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

func newSecretsBench(t *testing.T) *recorderBench {
	b := newRecorderBench(t)
	b.recorder.input, b.recorder.secrets = true, &secrets{patience: time.Hour}
	return b
}

// outputs gives the output of the complete segments.
func (b *recorderBench) outputs() (text string, bodies []recording.Body) {
	b.t.Helper()
	_, bodies = b.spilled()
	for i := range bodies {
		sealed, err := os.Open(b.spill.name(uint64(i+1), sealedPart))
		if err != nil {
			b.t.Fatal(err)
		}
		err = recording.Decode(sealed, bodies[i], b.key, func(e recording.Event) error {
			if e.Code == recording.Output {
				text += string(e.Data)
			}
			return nil
		})
		if err = errors.Join(err, sealed.Close()); err != nil {
			b.t.Fatal(err)
		}
	}
	return text, bodies
}

// A secret isn't recorded, wherever it is cut; the terminal and what is kept beside the recording have it.
func TestSecretsAreNotRecorded(t *testing.T) {
	const text = "one DB_PASSWORD=correct-horse two\r\nmore\r\n"
	for cut := range len(text) {
		b := newSecretsBench(t)
		b.prints(text[:cut])
		if err := b.sealed(true); err != nil { // as one who reads has it sealed
			t.Fatal(err)
		}
		b.prints(text[cut:])
		if err := b.seal(); err != nil {
			t.Fatal(err)
		}
		got, bodies := b.outputs()
		if got != "one DB_PASSWORD=************* two\r\nmore\r\n" {
			t.Errorf("cut at %d it is %q", cut, got)
		}
		if all, _ := b.spilled(); strings.Contains(all, "correct") || strings.Contains(all, "horse") {
			t.Errorf("cut at %d all is %q", cut, all)
		}
		if end := bodies[len(bodies)-1].End; end != int64(len("before ")+len(text)) {
			t.Errorf("cut at %d it ends at %d", cut, end)
		}
		for i, body := range bodies[1:] {
			if body.Start != bodies[i].End {
				t.Errorf("cut at %d a segment begins at %d, want %d", cut, body.Start, bodies[i].End)
			}
		}
		if !strings.Contains(string(b.of.log.Encode()), "correct-horse") {
			t.Errorf("what is kept is %q", b.of.log.Encode())
		}
	}
}

// A seal waits a while for the end of a line that is being typed, but not for ever.
func TestSealWaitsForALine(t *testing.T) {
	b := newSecretsBench(t)
	b.prints("password=correct")
	for range putOffMost {
		b.due()
		if got, _ := b.spilled(); got != "" {
			t.Fatalf("it is sealed: %q", got)
		}
		b.prints("-") // just now
	}
	b.due()
	if got, _ := b.spilled(); !strings.Contains(got, "password=*******") {
		t.Errorf("it is %q", got)
	}
}

// What waits for the end of its line is bounded, also when it comes in the smallest parts: else it would be packed again and again.
func TestFewPartsOfALineWait(t *testing.T) {
	b := newSecretsBench(t)
	b.wait, b.last = time.Hour, time.Now().Add(time.Hour) // the timer seals nothing
	b.work.Lock()                                         // until all is there
	all := strings.Repeat(".", lineWaits/4)
	for range all {
		b.output(backlog.Out, []byte("."))
		b.typed([]byte("x"), true)
	}
	marks, data, _, released := b.takeAll(false, true)
	if waits := len(data) - sizeOf(marks[:released]) + (len(marks)-released)*markSize; waits >= recordSoft {
		t.Errorf("%d bytes wait", waits)
	}
	b.mu.Lock()
	b.marks, b.data, b.worth = marks, data, true
	b.mu.Unlock()
	b.work.Unlock()
	b.close()
	if got, _ := b.outputs(); got != all {
		t.Errorf("%d of %d bytes are recorded", len(got), len(all))
	}
}

// A line waits for its end also after a large frame, but not what came before that: the two would be too much.
func TestLineAfterAFrameWaits(t *testing.T) {
	marks := []recorded{{code: recording.Output, n: 2}, {code: recording.Frame, n: lineWaits}, {code: recording.Output, n: 3}}
	data := []byte("a\n" + strings.Repeat("f", lineWaits) + "abc")
	if from, cut := new(secrets).held(marks, data); from != 2 || cut != 0 {
		t.Errorf("from mark %d, cut at %d", from, cut)
	}
}

// Where nothing was sealed no segment has ended: the next output needn't begin with what the terminal shows.
func TestHeldLineEndsNoSegment(t *testing.T) {
	b := newSecretsBench(t)
	b.wait, b.last = time.Hour, time.Now().Add(time.Hour) // the timer seals nothing
	b.shows("one\r\n")
	b.segment()
	b.shows("half")
	for range 2 * frameLeast {
		if err := b.sealed(true); err != nil {
			t.Fatal(err)
		}
	}
	if b.fresh || b.bare != 1 {
		t.Errorf("%d segments have ended, want 1; fresh: %t", b.bare, b.fresh)
	}
}

// A secret that is cut by a suspend isn't recorded: what comes after it is looked at with what was before.
func TestSecretAcrossSuspend(t *testing.T) {
	c := newCommand(backlog.New(attach.OutputKept), false)
	c.log.Append(backlog.Out, []byte(strings.Repeat("x", 3*lookedBack)))
	c.log.Append(backlog.Err, []byte("a hook\n"))
	c.log.Append(backlog.Out, []byte("\r\nDB_PASSWORD=corr"))
	s := newSecrets(c.log)
	if n := len(s.before); n < lookedBack/2 || n > lookedBack {
		t.Errorf("%d bytes are known", n)
	}
	data := []byte("ect-horse\r\n")
	s.take([]recorded{{code: recording.Output, n: len(data)}}, data, 1)
	if string(data) != "*********\r\n" {
		t.Errorf("it is %q", data)
	}
	c.log.Append(backlog.Out, []byte("\r\nbob's password: "))
	if got := newSecrets(c.log).unseen([]byte("hunter2\r"), true); string(got) != "*******\r" {
		t.Errorf("what is typed is %q", got)
	}
}

// What waits for the end of its line doesn't wait past a redaction: what was recorded before it is rewritten, and nothing else.
func TestRedactReleasesALine(t *testing.T) {
	b := newSecretsBench(t)
	b.prints("a line with hunter2")
	if err := b.of.redact("hunter2"); err != nil {
		t.Fatal(err)
	}
	if err := b.sealed(true); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.outputs(); got != "a line with hunter2" {
		t.Errorf("before the rewriting %q is recorded", got)
	}
}

// What is typed unseen isn't recorded, and neither is a secret in a command.
func TestUnseenInput(t *testing.T) {
	b := newSecretsBench(t)
	b.typed([]byte("seen\r"), true)
	b.typed([]byte("opensesame\r"), false)
	b.prints("\r\nbob@host's password: ")
	b.typed([]byte("hunter2\r"), true) // a program that shows nothing by itself
	b.prints("\r\n$ ")
	b.typed([]byte("seen again\r"), true)
	b.ran(schemas.TypedCommand{Number: 1, Text: "curl -u me:hunter2 x", Began: time.Unix(1, 0), Ended: time.Unix(2, 0)})
	if got := string(b.list.entries[0].line); strings.Contains(got, "hunter2") || !strings.Contains(got, redact.Marker) {
		t.Errorf("the command is %s", got)
	}
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	got, _ := b.spilled()
	if strings.Contains(got, "sesame") || strings.Contains(got, "hunter2") || !strings.Contains(got, "iseen\r") || !strings.Contains(got, "seen again\r") {
		t.Errorf("it is %q", got)
	}
}

// Much output goes on in order, and whole, but for its secrets.
func TestMuchWithSecrets(t *testing.T) {
	b := newSecretsBench(t)
	line := "an ordinary line with token=abcdefghijkl in it\r\n"
	for i := range 20000 {
		b.output(backlog.Out, []byte(line))
		if i%500 == 0 {
			if err := b.sealed(true); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.close()
	got, bodies := b.outputs()
	if n := strings.Count(got, "token=************ in it"); n != 20000 || strings.Contains(got, "abcdef") {
		t.Errorf("%d of 20000 lines are whole", n)
	}
	if end := bodies[len(bodies)-1].End; end != int64(len("before ")+20000*len(line)) {
		t.Errorf("it ends at %d", end)
	}
}

// What is held of the output and shown is changed when it is to be.
func TestRedactShown(t *testing.T) {
	b := newRecorderBench(t)
	_, at := b.of.log.Span()
	b.of.shown.screen.Resume(at, 0)
	b.prints("\x1b]633;E;echo hunter2\x07\x1b]633;C\x07hun\x1b[1mter2\x1b[0m is it\r\n")
	if err := b.of.redact("hunter2"); err != nil {
		t.Fatal(err)
	}
	w := b.of.shown
	if got := w.screen.Text(0); got != "******* is it" {
		t.Errorf("the screen has %q", got)
	}
	if running := w.tracker.State().Running; running == nil || running.Text != "echo *******" {
		t.Errorf("the command is %+v", running)
	}
	if got := string(b.of.log.Encode()); strings.Contains(got, "hun") || !strings.Contains(got, "***\x1b[1m****") {
		t.Errorf("what is kept is %q", got)
	}
	b.prints("goes on\x1b[")
	if err := b.of.redact("goes"); err != nil {
		t.Fatal(err)
	}
	b.prints("3Dx")
	if got := w.screen.Text(1); got != "****xon" {
		t.Errorf("then the screen has %q, %q", w.screen.Text(0), got)
	}
	if err := b.of.redact("("); err == nil {
		t.Error("that is no expression")
	}
	if rows, cols := w.screen.Size(); (attach.Size{Rows: uint16(rows), Cols: uint16(cols)}) != (attach.Size{Rows: 24, Cols: 80}) {
		t.Errorf("it is %dx%d", cols, rows)
	}
}
