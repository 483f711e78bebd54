package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/diapause/diapause/events/attach"
	emulator "github.com/diapause/diapause/events/screen"
)

const replayHelp = `Play the recording of a session's terminal in this one, as it was, or faster. It
resumes nothing, and plays up to the last seconds of a session that runs.

Space pauses and goes on; "." shows what comes next at once, and pauses; q or Ctrl-C
quits. What was shown last stays below. Of a recording that is larger than this
terminal a part is shown, with the cursor. This terminal gets characters and colours
alone: no title, link, sound or question of the program that was recorded.

It needs a terminal: "diapause export --format text NAME" prints what was recorded.`

func replayCommand(c *client) *cobra.Command {
	var from string
	p := pace{speed: 1}
	cmd := &cobra.Command{
		Use: "replay NAME", Short: "Play the recording of a session's terminal in this one", Args: cobra.ExactArgs(1),
		Long:    replayHelp,
		Example: "  diapause replay work\n  diapause replay --from 90s --speed 4 work\n  diapause replay --from '2026-05-04 15:30' --idle-limit 500ms work\n  diapause replay --from 12 work    # the command 12 of `diapause commands work`",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(p.speed > 0 && p.speed <= maxSpeed) {
				return usagef("--speed %v: want more than 0, and at most %d", p.speed, maxSpeed)
			}
			if p.idle < 0 {
				return usagef("--idle-limit %v: want how long, or 0 for no limit", p.idle)
			}
			begin, err := fromOf(from, time.Local)
			if err != nil {
				return err
			}
			if !term.IsTerminal(int(os.Stdout.Fd())) {
				return usagef("replay: standard output is no terminal").WithHint("`diapause export --format text %s` prints what was recorded", args[0])
			}
			shown, err := c.partFrom(cmd.Context(), args[0], begin)
			if err == nil {
				err = c.replay(cmd.Context(), args[0], shown, p)
			}
			if cmd.Context().Err() != nil {
				return exitStatus(exitInterrupted)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "begin at a `MOMENT`: so long after the beginning, e.g. 90s; a time, e.g. '2026-05-04 15:30' or 2026-05-04T15:30:00Z; or where a command began, by its number, e.g. 12")
	cmd.Flags().Float64Var(&p.speed, "speed", p.speed, "how many times as fast")
	durationVar(cmd.Flags(), &p.idle, "idle-limit", 2*time.Second, "wait no longer where nothing was printed, before --speed; 0 for no limit")
	return cmd
}

// maxSpeed bounds --speed.
const maxSpeed = 1000

// replay plays a recording in this terminal.
func (c *client) replay(ctx context.Context, name string, shown attach.History, p pace) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the source isn't waited for: it may stall
	fd := int(os.Stdout.Fd())
	sizeOf := func() attach.Size {
		cols, rows, err := term.GetSize(fd)
		if err != nil || cols < 1 || rows < 1 {
			return attach.Size{Rows: 24, Cols: 80}
		}
		return attach.Size{Rows: uint16(rows), Cols: uint16(cols)}
	}
	in := inputs{events: make(chan attach.Event, 16), keys: make(chan byte), sizes: make(chan attach.Size)}
	restore, err := keysOf(ctx, in.keys)
	if err != nil {
		return err
	}
	defer restore()
	go sizesOf(ctx, sizeOf, in.sizes)
	source := make(chan error, 1)
	go func() {
		give := func(e attach.Event) error {
			select {
			case in.events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		notes := writerFunc(func(b []byte) (int, error) { return len(b), give(attach.Event{Code: codeNote, Text: string(b)}) })
		source <- c.eachEvent(ctx, name, shown, notes, withMoment(shown, give))
		close(in.events)
	}()
	player := newPlayer(os.Stdout, sizeOf(), p)
	err = player.play(ctx, in)
	player.leave()
	restore()
	for _, note := range append(player.notes, player.summary()) {
		if note != "" {
			fmt.Fprintln(complained, note)
		}
	}
	switch {
	case errors.Is(err, errQuit):
		return nil
	case err != nil:
		return err
	}
	return <-source
}

// withMoment fails before the first event of a recording that should begin at a moment, if the host doesn't know of that.
func withMoment(shown attach.History, give func(attach.Event) error) func(attach.Event) error {
	asked := shown.Framed && (shown.After > 0 || !shown.Since.IsZero())
	return func(e attach.Event) error {
		if asked && e.Code != attach.CodeFrom {
			return errors.New("--from: the session's host is of an earlier version")
		}
		asked = false
		return give(e)
	}
}

// keysOf hands on what is typed, if standard input is a terminal. restore may be called more than once.
func keysOf(ctx context.Context, keys chan<- byte) (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("use the terminal: %w", err)
	}
	go func() {
		b := make([]byte, 64)
		for {
			n, err := os.Stdin.Read(b)
			for _, key := range b[:n] {
				select {
				case keys <- key:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return func() { _ = term.Restore(fd, before) }, nil // the terminal is gone, then
}

// sizesOf tells of the terminal's sizes until ctx ends.
func sizesOf(ctx context.Context, size func() attach.Size, to chan<- attach.Size) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	defer signal.Stop(changes)
	for {
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
		select {
		case to <- size():
		case <-ctx.Done():
			return
		}
	}
}

// pace is how fast a recording is played.
type pace struct {
	speed float64
	idle  time.Duration // no wait is longer, before speed; 0 for no limit
}

// wait is how long is waited between two events.
func (p pace) wait(from, to time.Time) time.Duration {
	d := max(to.Sub(from), 0) // a clock may have jumped back
	if p.idle > 0 {
		d = min(d, p.idle)
	}
	return time.Duration(min(float64(d)/p.speed, math.MaxInt64/2))
}

// inputs are what a player takes. events is closed at the recording's end.
type inputs struct {
	events chan attach.Event
	keys   chan byte
	sizes  chan attach.Size
}

// player plays a recording.
type player struct {
	out  io.Writer
	pace pace
	*emulator.Playback
	view *emulator.View

	entered bool      // the terminal shows the recording
	dirty   bool      // not all of it
	paused  bool      //
	step    bool      // the next event comes at once
	from    time.Time // what was before it isn't shown; zero if that is reached
	last    time.Time // of the last event; zero before the first that is shown
	due     time.Time // when that was to be shown
	seen    time.Time // of the last event, shown or not
	painted time.Time // when something was painted
	missing int       // gaps
	notes   []string  // what the host said of the recording

	large      string    // the largest size that the terminal doesn't show
	largeSince time.Time // when that came
}

func newPlayer(out io.Writer, size attach.Size, p pace) *player {
	return &player{out: out, pace: p, Playback: emulator.NewPlayback(), view: emulator.NewView(int(size.Rows), int(size.Cols))}
}

var errQuit = errors.New("quit")

// A wait shorter than smooth is made up for later: nothing is painted for it, unless nothing was for as long as stale. What is later
// than behind isn't caught up with.
const (
	smooth = 10 * time.Millisecond
	stale  = 100 * time.Millisecond
	behind = 500 * time.Millisecond
)

// codeNote is the code of what the host said of the recording: that is shown at the end, when the terminal is given back.
const codeNote = "note"

// maxNotes is how much of that is shown.
const maxNotes = 8

// play plays until the events end, or errQuit.
func (p *player) play(ctx context.Context, in inputs) error {
	for {
		e, more, err := p.next(ctx, in)
		if err != nil {
			return err
		}
		if !more {
			p.dirty = !p.seen.IsZero()
			return p.paint()
		}
		switch e.Code {
		case attach.CodeFrom:
			p.from = e.Time
			continue
		case codeNote:
			if len(p.notes) < maxNotes {
				p.notes = append(p.notes, strings.TrimSpace(e.Text))
			}
			continue
		}
		if err := p.await(ctx, in, e); err != nil {
			return err
		}
		if e.Code == "g" && p.from.IsZero() {
			p.missing++
		}
		p.Event(e.At, e.Code, e.Data())
		p.seen, p.dirty = e.Time, true
	}
}

// next takes the next event; more is false at the end. What was shown before is painted if it has to be waited for.
func (p *player) next(ctx context.Context, in inputs) (e attach.Event, more bool, err error) {
	select {
	case e, more = <-in.events:
		return e, more, nil
	default:
	}
	if p.last.IsZero() {
		p.dirty = false // it isn't time to show it
	}
	if err := p.paint(); err != nil {
		return e, false, err
	}
	for {
		select {
		case e, more = <-in.events:
			return e, more, nil
		case key := <-in.keys:
			err = p.key(key)
		case size := <-in.sizes:
			err = p.resize(size)
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return e, false, err
		}
	}
}

// await waits until it is time for an event.
func (p *player) await(ctx context.Context, in inputs, e attach.Event) error {
	if e.Time.Before(p.from) {
		return p.look(ctx, in)
	}
	now := time.Now()
	if p.last.IsZero() {
		p.last, p.due = e.Time, now
		if !p.from.IsZero() { // what was shown then comes first
			p.last, p.dirty = p.from, true
		}
	}
	p.from = time.Time{}
	p.due = p.due.Add(p.pace.wait(p.last, e.Time))
	p.last = e.Time
	if p.due.Before(now.Add(-behind)) {
		p.due = now
	}
	for {
		left := time.Until(p.due)
		if p.step {
			p.step, p.due = false, time.Now()
			return nil
		}
		soon := left < smooth && !p.paused
		if !soon || time.Since(p.painted) >= stale {
			if err := p.paint(); err != nil {
				return err
			}
		}
		if soon {
			return p.look(ctx, in)
		}
		if err := p.hold(ctx, in, left); err != nil {
			return err
		}
	}
}

// look takes a key that was typed, without waiting.
func (p *player) look(ctx context.Context, in inputs) error {
	select {
	case key := <-in.keys:
		return p.key(key)
	case size := <-in.sizes:
		return p.resize(size)
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

// hold waits for a time, a key or another size of the terminal; while it is paused not for the time.
func (p *player) hold(ctx context.Context, in inputs, left time.Duration) error {
	began := time.Now()
	var over <-chan time.Time
	if !p.paused {
		timer := time.NewTimer(left)
		defer timer.Stop()
		over = timer.C
	}
	paused := p.paused
	select {
	case <-over:
		return nil
	case key := <-in.keys:
		if paused {
			p.due = p.due.Add(time.Since(began))
		}
		return p.key(key)
	case size := <-in.sizes:
		if paused {
			p.due = p.due.Add(time.Since(began))
		}
		return p.resize(size)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// key does what a key is for.
func (p *player) key(key byte) error {
	switch key {
	case ' ':
		p.paused = !p.paused
	case '.':
		p.paused, p.step = true, true
	case 'q', 0x03:
		return errQuit
	default:
		return nil
	}
	p.dirty = p.entered
	return p.paint()
}

func (p *player) resize(size attach.Size) error {
	p.view.Resize(int(size.Rows), int(size.Cols))
	p.dirty = p.entered
	return p.paint()
}

// largeFor is how long it is said that a recording is larger than the terminal.
const largeFor = 3 * time.Second

// paint shows what there is to show.
func (p *player) paint() error {
	if !p.dirty {
		return nil
	}
	text := ""
	if !p.entered {
		text = "\x1b[?1049h\x1b[?7l"
	}
	p.entered, p.dirty, p.painted = true, false, time.Now()
	if _, err := io.WriteString(p.out, text+string(p.view.Update(p.Screen(), p.note()))); err != nil {
		return fmt.Errorf("write to the terminal: %w", err)
	}
	return nil
}

// note is what is said in the last row.
func (p *player) note() string {
	if !p.view.Fits(p.Screen()) {
		rows, cols := p.Screen().Size()
		if size := fmt.Sprintf("%dx%d", cols, rows); size != p.large {
			p.large, p.largeSince = size, time.Now()
		}
	}
	switch {
	case p.paused:
		return "paused"
	case p.large != "" && time.Since(p.largeSince) < largeFor:
		return p.large + " is larger than this terminal"
	}
	return ""
}

// leave gives the terminal back, with what was shown last.
func (p *player) leave() {
	if !p.entered {
		return
	}
	p.entered = false
	_, _ = io.WriteString(p.out, "\x1b[m\x1b[?7h\x1b[?25h\x1b[?1049l"+p.view.Rows(p.Screen())) // the terminal is gone, then
}

// summary is what is said at the end.
func (p *player) summary() string {
	switch {
	case p.large != "":
		return fmt.Sprintf("the recording is larger than this terminal (%s): a part of it was shown", p.large)
	case !p.from.IsZero() && !p.seen.IsZero():
		return "the recording ends before, at " + p.seen.Local().Format(time.DateTime)
	case p.missing > 0:
		return "some output is missing: it was not recorded"
	}
	return ""
}
