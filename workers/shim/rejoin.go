package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
)

// named are the commands whose clients may connect again, by the names that those gave. One
// that has ended is kept until its client has heard so, but not for long and not many.
type named struct {
	mu  sync.Mutex
	all []*command // in the order in which they came
}

// How long a command is kept after its end, or after a resume that follows it, and how many
// such are.
const (
	endedKept = 10 * time.Minute
	endedMost = 16
)

// add adds a command that has a name, and forgets it some time after its end.
func (n *named) add(c *command) {
	n.mu.Lock()
	n.all = append(n.all, c)
	n.mu.Unlock()
	go func() {
		<-c.done
		n.bound()
		time.AfterFunc(endedKept, func() { n.forget(c) })
	}()
}

// bound forgets the first that ended if there are too many.
func (n *named) bound() {
	n.mu.Lock()
	defer n.mu.Unlock()
	ended := 0
	for _, c := range slices.Backward(n.all) {
		if c.hasEnded() {
			if ended++; ended > endedMost {
				n.all = slices.DeleteFunc(n.all, func(o *command) bool { return o == c })
			}
		}
	}
}

func (n *named) forget(c *command) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = slices.DeleteFunc(n.all, func(o *command) bool { return o == c })
}

func (n *named) find(name string) *command {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.IndexFunc(n.all, func(c *command) bool { return c.name == name }); i >= 0 {
		return n.all[i]
	}
	return nil
}

// ended lists those that have ended, for an image.
func (n *named) ended() []*command {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.all), func(c *command) bool { return !c.hasEnded() })
}

func (c *command) hasEnded() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// savedEnd is a command that has ended and whose client hasn't heard so.
type savedEnd struct {
	Name   string             `json:"name"`
	Output string             `json:"output"` // file of its backlog
	Taken  int64              `json:"taken,omitempty"`
	Exit   schemas.ExitStatus `json:"exit"`
}

// save writes those that have ended to dir.
func (n *named) save(dir string) (all []savedEnd, err error) {
	for i, c := range n.ended() {
		s := savedEnd{Name: c.name, Output: fmt.Sprintf("ended.%d", i), Taken: c.inputTaken(), Exit: c.exit}
		if err := os.WriteFile(filepath.Join(dir, s.Output), c.log.Encode(), 0o600); err != nil {
			return nil, fmt.Errorf("save output: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

// load makes the commands that had ended when an image was made.
func (n *named) load(dir string, all []savedEnd) error {
	for _, s := range all {
		b, err := os.ReadFile(filepath.Join(dir, filepath.Base(s.Output)))
		if err != nil {
			return fmt.Errorf("read saved output: %w", err)
		}
		log, err := backlog.Decode(b, attach.OutputKept)
		if err != nil {
			return err
		}
		c := newCommand(log, true)
		c.name, c.got = s.Name, s.Taken
		c.ended(s.Exit)
		n.add(c)
	}
	return nil
}

// connection is a client's of a command that has a name.
type connection struct {
	conn net.Conn
	gone chan struct{} // closed when nothing of it is passed on any more
}

// take makes conn the one connection to the command. It returns when nothing comes over the
// one before any more, with what says so of this one.
func (c *command) take(conn net.Conn) (leave func()) {
	now := &connection{conn, make(chan struct{})}
	c.mu.Lock()
	before := c.client
	c.client = now
	c.mu.Unlock()
	if before != nil {
		before.conn.Close()
		<-before.gone
	}
	return func() { close(now.gone) }
}

func (c *command) inputTaken() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got
}

func (c *command) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got += int64(max(n, 0))
}

// rejoin connects a client again to a command that it started.
func (v *clients) rejoin(ctx context.Context, c net.Conn, r attach.Request) error {
	cmd := v.runner.named.find(r.Typist)
	if cmd == nil {
		return attach.WriteFrame(c, attach.FrameGone, nil)
	}
	leave := cmd.take(c)
	defer leave()
	start, end := cmd.log.Span()
	if r.Seen > end || r.From > cmd.inputTaken() { // the session went back
		return attach.WriteFrame(c, attach.FrameGone, nil)
	}
	if cmd.tty != nil && r.Rows > 0 && !cmd.hasEnded() {
		if err := cmd.tty.resize(attach.Size{Rows: r.Rows, Cols: r.Cols}); err != nil {
			return err
		}
	}
	return v.converseNamed(ctx, c, cmd, max(start, r.Seen))
}

// heardWait bounds the wait for a client to say that it knows how its command ended.
const heardWait = 2 * time.Second

// converseNamed is converse for a command that has a name.
func (v *clients) converseNamed(ctx context.Context, c net.Conn, cmd *command, from int64) error {
	if err := attach.WriteJSON(c, attach.FrameStarted, attach.Taken{Taken: cmd.inputTaken(), At: from}); err != nil {
		return nil // it runs on without its client
	}
	cmd.log.Hold(from)
	defer cmd.log.Release()
	ctx, cancel := context.WithCancel(ctx)
	received := make(chan struct{})
	defer func() { // before anything of a later connection is passed on
		cancel()
		c.Close()
		<-received
	}()
	go func() {
		defer close(received)
		defer cancel() // the client is gone
		v.receiveNamed(ctx, c, cmd)
	}()
	if err := sendOutput(ctx, c, cmd.log, from, true); err != nil || v.silent.Load() {
		return nil
	}
	if err := attach.WriteJSON(c, attach.FrameExit, cmd.exit); err != nil {
		return nil
	}
	select {
	case <-received:
	case <-time.After(heardWait):
	}
	return nil
}

// receiveNamed passes on what a client sends, and tells it what was taken.
func (v *clients) receiveNamed(ctx context.Context, c net.Conn, cmd *command) {
	for {
		kind, payload, err := attach.ReadFrame(c)
		if err != nil {
			return
		}
		switch {
		case kind == attach.FrameHeard:
			v.runner.named.forget(cmd)
			return
		case kind == attach.FrameStdin:
			err = v.passCounted(ctx, c, cmd, payload)
		case kind == attach.FrameStdinEOF:
			err = cmd.closeInput(ctx, v.gate)
		case kind == attach.FrameResize && cmd.tty != nil:
			var size attach.Size
			if err = json.Unmarshal(payload, &size); err == nil {
				err = cmd.tty.resize(size)
			}
		}
		if ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return
		}
		// Input that a command doesn't take is dropped; its output goes on.
	}
}

func (v *clients) passCounted(ctx context.Context, c net.Conn, cmd *command, b []byte) error {
	for part := range slices.Chunk(b, 4*toldOf) {
		passed := 0
		err := cmd.pass(ctx, v.gate, part, func(fd int, b []byte) (int, error) {
			n, err := unix.Write(fd, b)
			cmd.count(n)
			passed += max(n, 0)
			return n, err
		})
		if errors.Is(err, context.Canceled) {
			return err
		}
		cmd.count(len(part) - passed) // that it doesn't take
		if err := attach.WriteJSON(c, attach.FrameTaken, attach.Taken{Taken: cmd.inputTaken()}); err != nil {
			return err
		}
	}
	return nil
}
