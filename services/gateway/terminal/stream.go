package terminal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
)

// The bounds of one connection.
const (
	tail     = 16 << 10 // of the output of a session that has no screen, in bytes
	maxPaint = 32 << 20 // of a screen, in bytes
	maxPiece = 32 << 10 // of input, in bytes
)

// stream is one connection to the session.
type stream struct {
	*socket
	conn    net.Conn
	writing sync.Mutex // guards writes to conn
	view    schemas.View
	request attach.Request
	ended   *schemas.ExitStatus // how the session ended, if it did
	parts   sync.WaitGroup

	untold bool // the session doesn't say what it has taken
	filter *screen.Filter
	head   attach.Screen
	paint  []byte // of it, so far
}

// converse connects to the session and carries the terminal until that connection ends. began says that it came to
// that; exit isn't nil if the session has ended.
func (s *socket) converse(ctx context.Context, v schemas.View) (began bool, exit *schemas.ExitStatus, err error) {
	conn, err := s.Session.Dial(ctx, v)
	if err != nil {
		return false, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &stream{socket: s, conn: conn, view: v}
	defer c.parts.Wait()
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c.request = s.asks(v)
	if err := c.send(attach.FrameRequest, c.request); err != nil {
		return false, nil, attach.ErrLost
	}
	in := bufio.NewReaderSize(conn, 2*maxPiece)
	for c.ended == nil {
		kind, payload, err := attach.ReadFrame(in)
		if err != nil {
			return began, nil, attach.ErrLost
		}
		if err := c.receive(ctx, kind, payload); err != nil {
			return began, nil, err
		}
		began = began || kind == attach.FrameStarted
	}
	return began, c.ended, nil
}

// asks makes the request: the client goes on where it was, if the session's output goes on from there.
func (s *socket) asks(v schemas.View) attach.Request {
	taken, _, _ := s.keys.state()
	if s.Watch != nil {
		r := attach.Request{Op: attach.OpWatch, Share: s.Watch.Share}
		if s.run == v.Generation {
			r.Seen = s.at
		}
		return r
	}
	r := attach.Request{Op: attach.OpAttach, Stdin: true, Screen: true, Tail: tail, By: schemas.MadeByPerson, Typist: s.typist(), From: taken, Again: s.run != 0}
	switch {
	case s.run == 0 && s.hint.Session == v.UID:
		r.From, r.Again = s.hint.Taken, s.hint.Taken > 0
		if s.hint.Run == v.Generation {
			r.Seen = s.hint.At
		}
	case s.run == v.Generation, s.run+1 == v.Generation && v.Boot == schemas.BootResume:
		r.Seen = s.at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Rows, r.Cols = s.size.Rows, s.size.Cols
	return r
}

// send sends a frame with JSON.
func (c *stream) send(kind byte, v any) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return attach.WriteJSON(c.conn, kind, v)
}

// receive takes one frame of the session's.
func (c *stream) receive(ctx context.Context, kind byte, payload []byte) error {
	switch kind {
	case attach.FrameStarted:
		return c.started(ctx, payload)
	case attach.FrameTaken:
		var t attach.Taken
		if err := json.Unmarshal(payload, &t); err != nil {
			return fmt.Errorf("read what was taken: %w", err)
		}
		return c.took(ctx, t.Taken)
	case attach.FrameScreen:
		c.head, c.paint = attach.Screen{}, nil
		if err := json.Unmarshal(payload, &c.head); err != nil || c.head.Paint > maxPaint {
			return errors.New("the session's screen can't be read")
		}
		return c.sized(ctx, c.head.Size)
	case attach.FramePaint:
		return c.painted(ctx, payload)
	case attach.FrameResize:
		var size attach.Size
		if err := json.Unmarshal(payload, &size); err != nil {
			return fmt.Errorf("read the terminal's size: %w", err)
		}
		return c.sized(ctx, size)
	case attach.FrameStdout, attach.FrameStderr:
		return c.printed(ctx, payload)
	case attach.FrameExit:
		c.ended = &schemas.ExitStatus{}
		if err := json.Unmarshal(payload, c.ended); err != nil {
			return fmt.Errorf("read how the session ended: %w", err)
		}
	case attach.FrameError:
		return attach.RemoteError(payload)
	}
	return nil
}

// started takes the answer to the request.
func (c *stream) started(ctx context.Context, payload []byte) error {
	t := attach.Taken{Taken: c.request.From}
	if c.untold = len(payload) == 0; !c.untold {
		if err := json.Unmarshal(payload, &t); err != nil {
			return fmt.Errorf("read the session's answer: %w", err)
		}
	}
	if err := c.keys.take(t.Taken); err != nil {
		return err
	}
	c.run = c.view.Generation
	c.filter = screen.NewFilter(t.At, 0)
	said := Message{Type: typeAttached, Host: c.view.Host, Session: c.view.UID, Run: c.run, Exact: &t.Screen, Taken: &t.Taken}
	if c.Watch != nil {
		said.Host, said.Taken = "", nil
	}
	err := c.say(ctx, said)
	if err == nil && !t.Screen {
		blank := screen.New(int(c.request.Rows), int(c.request.Cols))
		err = c.output(ctx, KindScreen, t.At, blank.Paint())
	}
	if err != nil {
		return err
	}
	if c.Watch != nil {
		return nil
	}
	c.parts.Go(func() { c.carryInput(ctx, t.Taken) })
	c.parts.Go(func() { c.carrySizes(ctx) })
	return nil
}

// took takes how much of the input the session has.
func (c *stream) took(ctx context.Context, taken int64) error {
	if err := c.keys.take(taken); err != nil {
		return err
	}
	return c.say(ctx, Message{Type: typeTaken, Taken: &taken})
}

func (c *stream) sized(ctx context.Context, size attach.Size) error {
	return c.say(ctx, Message{Type: typeSize, Rows: size.Rows, Cols: size.Cols})
}

// painted takes a part of a screen, and sends it on when it is whole.
func (c *stream) painted(ctx context.Context, b []byte) error {
	if len(c.paint)+len(b) > c.head.Paint {
		return errors.New("the session's screen is larger than it said")
	}
	if c.paint = append(c.paint, b...); len(c.paint) < c.head.Paint {
		return nil
	}
	paint := c.paint
	c.paint, c.filter = nil, screen.NewFilter(c.head.At, c.head.Dropped)
	return c.output(ctx, KindScreen, c.head.At, paint)
}

// printed sends output on, without what a terminal would answer.
func (c *stream) printed(ctx context.Context, b []byte) error {
	if c.filter == nil {
		return errors.New("the session's output comes before its answer")
	}
	if out := c.filter.Write(b); len(out) > 0 {
		return c.output(ctx, kindOutput, c.filter.Offset(), out)
	}
	return nil
}

// carryInput sends what is typed, from a position on.
func (c *stream) carryInput(ctx context.Context, at int64) {
	for {
		b, gone, changed := c.keys.from(at, maxPiece)
		if gone {
			return
		}
		if len(b) == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		c.writing.Lock()
		err := attach.WriteFrame(c.conn, attach.FrameStdin, b)
		c.writing.Unlock()
		if err != nil {
			return // as converse sees, too
		}
		at += int64(len(b))
		if c.untold && c.took(ctx, at) != nil {
			return
		}
	}
}

// carrySizes sends each new size of the client's window.
func (c *stream) carrySizes(ctx context.Context) {
	said := attach.Size{Rows: c.request.Rows, Cols: c.request.Cols}
	for {
		c.mu.Lock()
		size, changed := c.size, c.resized
		c.mu.Unlock()
		if size != said {
			if said = size; c.send(attach.FrameResize, size) != nil {
				return // as converse sees, too
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
