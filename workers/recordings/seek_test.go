package recordings

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/objectstore/recording"
)

var start = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// minute spills a segment of one minute, with events of the kinds that are named.
func (b *bench) minute(n int, codes string) {
	b.t.Helper()
	var events []recording.Event
	for i, code := range codes {
		e := recording.Event{Time: start.Add(time.Duration(n)*time.Minute + time.Duration(i)*time.Second), Code: recording.Code(code)}
		switch e.Code {
		case recording.Output:
			e.Data = fmt.Appendf(nil, "%d.%d ", n, i)
		case recording.Frame:
			e.Data = fmt.Appendf(nil, "30x4\n\x1b[H\x1b[2Jframe %d ", n)
		case recording.Resize:
			e.Data = []byte("30x4")
		}
		events = append(events, e)
	}
	b.spillsAll(events...)
}

// from reads from a moment on, and gives what came and how many segments were read for it.
func (b *bench) from(part recording.Part, at time.Duration) (text string, found bool, bodies int) {
	b.t.Helper()
	r, err := b.spool.Open(b.t.Context(), b.record, part)
	if err != nil {
		b.t.Fatal(err)
	}
	before := b.store.bodies
	var out strings.Builder
	found, err = r.From(b.t.Context(), start.Add(at), func(e recording.Event) error {
		switch e.Code {
		case recording.Output:
			out.Write(e.Data)
		case recording.Frame:
			out.WriteString("k ")
		case recording.Gap:
			fmt.Fprintf(&out, "[%s] ", e.Data)
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.String(), found, b.store.bodies - before
}

// What is read begins with the frame before a moment, which may be some segments before, or with the beginning.
func TestSeek(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.minute(0, "roo")
	b.minute(1, "kooo")
	b.minute(2, "o") // its frame would have been too large
	b.minute(3, "rko")
	b.minute(4, "okoo")
	b.stores()
	for _, c := range []struct {
		at     time.Duration
		want   string
		bodies int
	}{
		{-time.Hour, "0.1 0.2 k 1.1 1.2 1.3 2.0 k 3.2 4.0 k 4.2 4.3 ", 5},
		{time.Second, "0.1 0.2 k 1.1 1.2 1.3 2.0 k 3.2 4.0 k 4.2 4.3 ", 5},
		{time.Minute, "k 1.1 1.2 1.3 2.0 k 3.2 4.0 k 4.2 4.3 ", 1 + 4},
		{2 * time.Minute, "k 1.1 1.2 1.3 2.0 k 3.2 4.0 k 4.2 4.3 ", 2 + 4},
		{2*time.Minute + 30*time.Second, "k 3.2 4.0 k 4.2 4.3 ", 1 + 2},
		{3*time.Minute + 2*time.Second, "k 3.2 4.0 k 4.2 4.3 ", 1 + 2},
		{4 * time.Minute, "k 3.2 4.0 k 4.2 4.3 ", 2 + 2}, // before the frame of its segment
		{time.Hour, "4.0 k 4.2 4.3 ", 1 + 1},
	} {
		text, found, bodies := b.from(recording.Part{}, c.at)
		if text != c.want || !found || bodies != c.bodies {
			t.Errorf("at %v it is %q of %d segments, want %q of %d", c.at, text, bodies, c.want, c.bodies)
		}
	}
	if text, found, _ := b.from(recording.Part{Most: 1}, 4*time.Minute); found || text != "" {
		t.Errorf("without a frame in the part that was opened it is %q", text)
	}
}

// A frame counts that follows on a line which had waited for its end, also if every segment begins so, but not one far behind.
func TestSeekBehindHeldLines(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	for n := range 5 {
		b.minute(n, "okoo")
	}
	b.spillsAll(
		recording.Event{Time: start.Add(5 * time.Minute), Code: recording.Output, Data: make([]byte, beforeFrame+1)},
		recording.Event{Time: start.Add(5*time.Minute + time.Second), Code: recording.Frame, Data: []byte("30x4\nframe")},
	)
	b.stores()
	if text, found, bodies := b.from(recording.Part{}, 4*time.Minute+30*time.Second); !found || !strings.HasPrefix(text, "4.0 k 4.2 4.3 ") || bodies != 2+2 {
		t.Errorf("it is %.60q of %d segments", text, bodies)
	}
	if text, _, bodies := b.from(recording.Part{}, time.Hour); !strings.HasPrefix(text, "4.0 k 4.2 4.3 ") || bodies != 2+2 {
		t.Errorf("at the end it is %.60q of %d segments", text, bodies)
	}
}

// A recording without frames, as of before, is read from its beginning; one that was shortened from what is left.
func TestSeekWithoutFrames(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.minute(0, "o")
	b.minute(1, "o")
	b.minute(2, "ok")
	b.stores()
	if text, found, _ := b.from(recording.Part{}, 2*time.Minute); !found || text != "0.0 1.0 2.0 k " {
		t.Errorf("it is %q", text)
	}
	if err := new(recording.Room).Trim(t.Context(), b.store, placeOf(b.record), 1); err != nil {
		t.Fatal(err)
	}
	if text, found, _ := b.from(recording.Part{}, 2*time.Minute); !found || text != "2.0 k " {
		t.Errorf("shortened it is %q", text)
	}
	none := newBench(t)
	none.begins(nil)
	if text, found, _ := none.from(recording.Part{}, 0); !found || text != "" {
		t.Errorf("of nothing it is %q", text)
	}
}

// A clock that jumped back loses nothing that was recorded after the moment.
func TestSeekClockJumps(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.minute(60, "oo")
	b.minute(10, "koo")
	b.minute(20, "koo")
	b.stores()
	if text, _, _ := b.from(recording.Part{}, 20*time.Minute); text != "60.0 60.1 k 10.1 10.2 k 20.1 20.2 " {
		t.Errorf("it is %q", text)
	}
	if text, _, _ := b.from(recording.Part{}, 2*time.Hour); text != "k 20.1 20.2 " {
		t.Errorf("it is %q", text)
	}
}

// shown gives what the terminal of the session, which has ended, showed last.
func (b *bench) shown() (string, int) {
	b.t.Helper()
	b.record.State, b.record.Head = "exited", nil
	before := b.store.bodies
	head, paint, err := b.spool.Shown(b.t.Context(), b.record)
	if err != nil {
		return err.Error(), b.store.bodies - before
	}
	s := screen.New(int(head.Rows), int(head.Cols))
	s.Write(paint)
	return s.Text(0), b.store.bodies - before
}

// What a terminal showed last is what followed on the last frame, found in few segments.
func TestShownAtEnd(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	for n := range 20 {
		b.minute(n, "ko")
	}
	b.stores()
	if text, bodies := b.shown(); text != "frame 19 19.1" || bodies != 2 {
		t.Errorf("it shows %q, of %d segments", text, bodies)
	}
	b.minute(20, "o")
	b.stores()
	if text, bodies := b.shown(); text != "frame 19 19.1 20.0" || bodies != 4 {
		t.Errorf("without a frame it shows %q, of %d segments", text, bodies)
	}
	b.minute(21, "o")
	b.minute(22, "r")
	b.stores()
	if text, _ := b.shown(); text != "frame 19 19.1 20.0 21.0" {
		t.Errorf("without one in the last two it shows %q", text)
	}
	b.minute(23, "o")
	b.stores()
	if err := new(recording.Room).Trim(t.Context(), b.store, placeOf(b.record), 1); err != nil {
		t.Fatal(err)
	}
	if text, _ := b.shown(); !strings.Contains(text, "wasn't kept") {
		t.Errorf("without any frame it shows %q", text)
	}
}

// Of a recording whose last frame is far off it isn't told what its terminal showed; one of that many segments is played.
func TestShownAtEndIsBounded(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.minute(0, "ro")
	for n := range framesWithin - 1 {
		b.minute(n+1, "r")
	}
	b.stores()
	if text, _ := b.shown(); text != "0.1" {
		t.Errorf("it shows %q", text)
	}
	b.minute(framesWithin, "r")
	b.stores()
	if text, bodies := b.shown(); !strings.Contains(text, "wasn't kept") || bodies > 2+framesWithin {
		t.Errorf("it shows %q, of %d segments", text, bodies)
	}
}

// A reading that was given up ends before the next event.
func TestReadGivenUp(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.minute(0, "ooo")
	b.stores()
	r, err := b.spool.Open(t.Context(), b.record, recording.Part{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	n := 0
	err = r.Each(ctx, time.Time{}, func(recording.Event) error {
		n++
		giveUp()
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%d events come, %v", n, err)
	}
}

// A recording of 1 GB isn't read whole for what was on the terminal at a moment.
func TestSeekInLarge(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return
	}
	const segments, each = 256, 4 << 20
	b := newBench(t)
	b.begins(nil)
	noise := rand.NewChaCha8([32]byte{})
	data := make([]byte, each)
	for n := range segments {
		if _, err := noise.Read(data); err != nil {
			t.Fatal(err)
		}
		at := start.Add(time.Duration(n) * time.Minute)
		b.spillsAll(recording.Event{Time: at, Code: recording.Frame, Data: fmt.Appendf(nil, "30x4\n\x1b[H\x1b[2Jframe %d ", n)},
			recording.Event{Time: at, Code: recording.Output, Data: data}, recording.Event{Time: at.Add(time.Second), Code: recording.Output, Data: []byte("\x1bc")})
		b.stores()
	}
	r, err := b.spool.Open(t.Context(), b.record, recording.Part{})
	if err != nil {
		t.Fatal(err)
	}
	for _, minute := range []int{segments - 1, segments / 2, 1} {
		before := b.store.bodies
		p := screen.NewPlayback()
		_, err = r.From(t.Context(), start.Add(time.Duration(minute)*time.Minute), func(e recording.Event) error {
			p.Event(e.At, string(e.Code), e.Data)
			return errKnown // as of a reader that has what it wants
		})
		if err != errKnown || !strings.HasPrefix(p.Screen().Text(0), fmt.Sprintf("frame %d", minute)) {
			t.Errorf("at minute %d it shows %q, %v", minute, p.Screen().Text(0), err)
		}
		if n := b.store.bodies - before; n > 2 {
			t.Errorf("at minute %d, %d segments are read", minute, n)
		}
	}
	before := b.store.bodies
	if b.shown(); b.store.bodies-before > 2 {
		t.Errorf("for what it showed last %d segments are read", b.store.bodies-before)
	}
}
