package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// stage is a player before a terminal, in a bubble of time.
type stage struct {
	t        *testing.T
	mu       sync.Mutex // of the terminal
	terminal *emulator.Screen
	at       int64
	in       inputs
	player   *player
	ended    chan error
	stop     context.CancelFunc
}

// onStage has fn see how a recording is played.
func onStage(t *testing.T, p pace, fn func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, terminal: emulator.New(4, 40), in: inputs{events: make(chan attach.Event, 100), keys: make(chan byte), sizes: make(chan attach.Size)}, ended: make(chan error, 1)}
		s.player = newPlayer(writerFunc(func(b []byte) (int, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if answers := s.terminal.Write(b); len(answers) > 0 {
				t.Errorf("the terminal answers %q", answers)
			}
			return len(b), nil
		}), attach.Size{Rows: 4, Cols: 40}, p)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s.stop = stop
		go func() { s.ended <- s.player.play(ctx, s.in) }()
		fn(s)
		stop()
	})
}

// event has the source give one.
func (s *stage) event(after time.Duration, code, text string) {
	s.in.events <- attach.Event{Time: noon.Add(after), At: s.at, Code: code, Text: text}
	if code == "o" {
		s.at += int64(len(text))
	}
}

// shows checks the terminal's first row when nothing more happens by itself for now.
func (s *stage) shows(want string) {
	s.t.Helper()
	synctest.Wait()
	if got := s.row(0); got != want {
		s.t.Errorf("it shows %q, want %q", got, want)
	}
}

// row is what a row of the terminal shows.
func (s *stage) row(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terminal.Text(n)
}

// passes lets time pass.
func (s *stage) passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// end ends the recording.
func (s *stage) end() error {
	close(s.in.events)
	err := <-s.ended
	s.player.leave()
	return err
}

func TestReplay(t *testing.T) {
	onStage(t, pace{speed: 2, idle: 10 * time.Second}, func(s *stage) {
		s.event(0, codeNote, "diapause: its beginning isn't kept\n")
		s.event(0, "r", "20x3")
		s.event(0, "o", "one ")
		s.event(4*time.Second, "o", "two ")
		s.event(time.Hour, "o", "three ")
		s.event(time.Minute, "o", "back ") // a clock that was set back
		s.event(time.Minute, "g", "7")
		s.event(time.Minute, "x", "0")
		s.shows("one")
		s.passes(1900 * time.Millisecond)
		s.shows("one")
		s.passes(200 * time.Millisecond)
		s.shows("one two")
		s.passes(4 * time.Second)
		s.shows("one two")
		s.passes(time.Second)
		s.shows("one two three back")
		if err := s.end(); err != nil {
			t.Error(err)
		}
		s.shows("one two three back") // below what the terminal had
		if s.terminal.Alternate() || s.player.summary() == "" {
			t.Error("the terminal isn't as it was, or nothing is said of what is missing")
		}
		if got := s.player.notes; len(got) != 1 || got[0] != "diapause: its beginning isn't kept" {
			t.Errorf("what was said is %q", got)
		}
	})
}

func TestReplayKeys(t *testing.T) {
	onStage(t, pace{speed: 1}, func(s *stage) {
		s.event(0, "o", "one ")
		s.event(10*time.Second, "o", "two ")
		s.event(20*time.Second, "o", "three ")
		s.event(30*time.Second, "o", "four ")
		s.passes(8 * time.Second)
		s.in.keys <- ' '
		s.passes(time.Hour)
		s.shows("one")
		if got := s.row(3); !strings.HasSuffix(got, "paused") {
			t.Errorf("its last row is %q", got)
		}
		s.in.keys <- ' '
		s.passes(1900 * time.Millisecond)
		s.shows("one")
		s.passes(200 * time.Millisecond)
		s.shows("one two")
		s.in.keys <- 'x' // means nothing
		s.in.keys <- '.'
		s.shows("one two three")
		s.passes(time.Hour)
		s.shows("one two three")
		s.in.keys <- '.'
		s.shows("one two three four")
		s.in.sizes <- attach.Size{Rows: 4, Cols: 13}
		s.shows("one two three")
		s.in.keys <- 'q' // while the source gives nothing
		if err := <-s.ended; !errors.Is(err, errQuit) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A source that gives nothing, and one that was interrupted, hold nothing up.
func TestReplayStalled(t *testing.T) {
	for _, quit := range []func(s *stage){func(s *stage) { s.in.keys <- 0x03 }, func(s *stage) { s.stop() }} {
		onStage(t, pace{speed: 1}, func(s *stage) {
			quit(s)
			if err := <-s.ended; err == nil {
				t.Error("it doesn't quit")
			}
			s.player.leave()
			if s.shows(""); s.player.entered || s.player.summary() != "" {
				t.Error("the terminal was used")
			}
		})
	}
}

// What was before the moment isn't shown, but what the terminal showed then.
func TestReplayFrom(t *testing.T) {
	onStage(t, pace{speed: 1, idle: 2 * time.Second}, func(s *stage) {
		s.at = 100
		s.event(30*time.Second, attach.CodeFrom, "")
		s.event(0, "g", "0") // what was missing before isn't told
		s.event(0, "k", "40x4\n\x1b[H\x1b[2Jframe ")
		s.event(0, "o", "one ")
		s.shows("")
		s.event(29*time.Second, "o", "two ")
		s.event(40*time.Second, "o", "three ")
		s.shows("frame one two")
		s.passes(1900 * time.Millisecond)
		s.shows("frame one two")
		s.passes(200 * time.Millisecond)
		s.shows("frame one two three")
		s.event(40*time.Second, "k", "40x4\n\x1b[H\x1b[2Jwhat is shown already")
		s.shows("frame one two three")
		if err := s.end(); err != nil || s.player.summary() != "" {
			t.Errorf("it ends with %v, %q", err, s.player.summary())
		}
	})
	onStage(t, pace{speed: 1}, func(s *stage) {
		s.event(time.Hour, attach.CodeFrom, "")
		s.event(0, "r", "20x3")
		s.event(0, "o", "ended before")
		if err := s.end(); err != nil || !strings.Contains(s.player.summary(), "ends before") {
			t.Errorf("it ends with %v, %q", err, s.player.summary())
		}
		s.shows("ended before")
	})
}

// A recording that is larger than the terminal is shown in part, and that is said.
func TestReplayLarge(t *testing.T) {
	onStage(t, pace{speed: 1}, func(s *stage) {
		s.event(0, "r", "100x50")
		s.event(0, "o", "\x1b[50;1Hlast row")
		s.event(time.Minute, "o", "\x1b[1;1Hfirst row\x1b]0;title\a\x1b]52;c;YQ==\a\x1b[?1000h\x1b[?1049h\x1b[6n")
		s.event(time.Minute, "o", "second screen")
		s.passes(time.Second)
		if got := s.row(3); !strings.HasSuffix(got, "100x50 is larger than this terminal") {
			t.Errorf("its last row is %q", got)
		}
		s.passes(time.Minute)
		s.shows("         second screen")
		if got := s.row(3); got != "" {
			t.Errorf("its last row is %q", got)
		}
		if err := s.end(); err != nil || s.terminal.Title() != "" || !strings.Contains(s.player.summary(), "larger") {
			t.Errorf("it ends with %v, %q", err, s.player.summary())
		}
	})
}

// What comes faster than it is worth to paint is painted now and then.
func TestReplayFlood(t *testing.T) {
	onStage(t, pace{speed: 1}, func(s *stage) {
		painted := 0
		s.player.out = writerFunc(func(b []byte) (int, error) { painted++; return len(b), nil })
		for i := range 10000 {
			s.event(time.Duration(i)*time.Millisecond, "o", fmt.Sprintf("%d\r\n", i))
		}
		if err := s.end(); err != nil || painted < 50 || painted > 1100 {
			t.Errorf("it painted %d times, %v", painted, err)
		}
	})
}

func TestFrom(t *testing.T) {
	zone := time.FixedZone("", 3600)
	at := time.Date(2026, 5, 4, 15, 30, 0, 0, zone)
	for text, want := range map[string]attach.History{
		"": {}, "90s": {Framed: true, After: 90 * time.Second}, "0s": {Framed: true},
		"2026-05-04 15:30": {Framed: true, Since: at}, "2026-05-04T15:30:00": {Framed: true, Since: at}, "2026-05-04T14:30:00Z": {Framed: true, Since: at},
	} {
		if got, err := fromOf(text, zone); err != nil || got.After != want.After || !got.Since.Equal(want.Since) || got.Framed != want.Framed {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]int64{"12": 12, "#12": 12, "1": 1, "007": 7, "0": 0, "12s": 0} {
		if got, err := fromOf(text, zone); err != nil || got.command != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"-1s", "yesterday", "15:30", "2026-13-01", "#0", "#", "#-1", "#x", "00", "#12s", "99999999999999999999"} {
		if got, err := fromOf(text, zone); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// A host of an earlier version sends the events of another moment than was asked for.
func TestFromOfEarlierHost(t *testing.T) {
	for _, c := range []struct {
		shown attach.History
		first string
		ok    bool
	}{
		{attach.History{}, "r", true}, {attach.History{Framed: true}, "r", true},
		{attach.History{Framed: true, After: time.Second}, attach.CodeFrom, true}, {attach.History{Framed: true, After: time.Second}, "r", false},
		{attach.History{Framed: true, Since: noon}, attach.CodeFrom, true}, {attach.History{Framed: true, Since: noon}, "o", false},
	} {
		n := 0
		give := withMoment(c.shown, func(attach.Event) error { n++; return nil })
		err := give(attach.Event{Code: c.first})
		if err == nil {
			err = give(attach.Event{Code: "o"})
		}
		if ok := err == nil && n == 2; ok != c.ok || !c.ok && (n > 0 || !strings.Contains(err.Error(), "earlier version")) {
			t.Errorf("%+v: %d events come, %v", c, n, err)
		}
	}
}
