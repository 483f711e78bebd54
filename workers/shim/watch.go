package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/diapause/diapause/events/attach"
)

// skipBehind is how far behind with the output a client with a Screen may be: beyond it gets the screen as it is.
// It is less than a backlog keeps.
const skipBehind = attach.OutputKept / 2

// watch carries the terminal to a typist that wants the screen.
func (v *clients) watch(ctx context.Context, c net.Conn, r attach.Request, taken int64) error {
	w := v.tree.main.shown
	leave := w.join(v.gate, true)
	defer leave()
	if err := v.tree.main.resize(attach.Size{Rows: r.Rows, Cols: r.Cols}); err != nil {
		return err
	}
	s := &watcher{shown: w, conn: c}
	if err := s.begin(r, taken); err != nil {
		return nil // the client is gone
	}
	return v.converseBy(ctx, c, v.tree.main, s.send, func(ctx context.Context) { v.receiveTyped(ctx, c, r) })
}

// watcher is a client that gets the screen, and the output that follows.
type watcher struct {
	shown *shown
	conn  net.Conn
	at    int64       // of the output that it gets next
	size  attach.Size // that it knows
}

// begin answers the request: the client goes on where it was, if that isn't too far behind.
func (s *watcher) begin(r attach.Request, taken int64) error {
	start, end := s.shown.of.log.Span()
	goesOn := r.Seen > 0 && r.Seen >= start && r.Seen <= end && end-r.Seen <= skipBehind
	if s.at = r.Seen; !goesOn {
		s.at = end
	}
	if err := attach.WriteJSON(s.conn, attach.FrameStarted, attach.Taken{Taken: taken, At: s.at, Screen: true}); err != nil {
		return err
	}
	if !goesOn {
		return s.paint()
	}
	return s.resized()
}

// screen sends what the terminal shows, once.
func (v *clients) screen(c net.Conn) error {
	w := v.tree.main.shown
	if w == nil {
		return fmt.Errorf("session %s has no terminal", v.name)
	}
	head, paint := w.paint()
	return attach.SendScreen(c, head, paint)
}

// paint sends the screen.
func (s *watcher) paint() error {
	head, b := s.shown.paint()
	if err := attach.WriteJSON(s.conn, attach.FrameScreen, head); err != nil {
		return err
	}
	for part := range slices.Chunk(b, attach.MaxFrame) {
		if err := attach.WriteFrame(s.conn, attach.FramePaint, part); err != nil {
			return err
		}
	}
	s.at, s.size = head.At, head.Size
	return nil
}

// resized tells the size if it is another.
func (s *watcher) resized() error {
	size := s.shown.size()
	if size == s.size {
		return nil
	}
	s.size = size
	return attach.WriteJSON(s.conn, attach.FrameResize, size)
}

// send sends the output until it ends, and the screen in its place when there is too much of it.
func (s *watcher) send(ctx context.Context) error {
	log := s.shown.of.log
	for {
		stream, b, next, err := log.Next(ctx, s.at)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, end := log.Span()
		if end-s.at > skipBehind || next-int64(len(b)) != s.at {
			err = s.paint()
		} else if err = s.resized(); err == nil {
			s.at = next
			err = attach.WriteOutput(s.conn, stream, b)
		}
		if err != nil {
			return fmt.Errorf("send the terminal: %w", err)
		}
	}
}
