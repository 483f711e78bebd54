package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"

	"github.com/diapause/diapause/events/attach"
)

// welcome answers a typist's request with how much of its input was taken, and with the
// position at which its output begins.
func (v *clients) welcome(c net.Conn, r attach.Request, taken int64) (from int64, err error) {
	start, end := v.tree.main.log.Span()
	from = v.tree.main.log.Tail(tail(r.Tail))
	if r.Seen > 0 {
		from = min(max(start, r.Seen), end)
	}
	return from, attach.WriteJSON(c, attach.FrameStarted, attach.Taken{Taken: taken, At: from})
}

// receiveTyped is receiveInput for a typist, which is told what was taken. That doesn't wait for a client that reads
// nothing: what it types may end what it doesn't read.
func (v *clients) receiveTyped(ctx context.Context, c net.Conn, r attach.Request) {
	more := make(chan struct{}, 1)
	defer close(more)
	go v.tellTaken(c, r.Typist, more)
	for {
		kind, payload, err := attach.ReadFrame(c)
		if err != nil {
			return
		}
		switch {
		case kind == attach.FrameStdin:
			v.tree.main.shown.typedBy(r.By)
			err = v.passTyped(ctx, c, r.Typist, payload, more)
		case kind == attach.FrameResize:
			var size attach.Size
			if err = json.Unmarshal(payload, &size); err == nil {
				err = v.tree.main.resize(size)
			}
		}
		if err != nil {
			return // it has ended, or the client is gone, or came again
		}
	}
}

// toldOf is how many bytes may be taken before the typist is told.
const toldOf = 4096

func (v *clients) passTyped(ctx context.Context, c net.Conn, id string, b []byte, more chan<- struct{}) error {
	for part := range slices.Chunk(b, toldOf) {
		err := v.tree.main.pass(ctx, v.gate, part, func(fd int, b []byte) (int, error) {
			shows := v.tree.main.recorder().shows(v.tree.main.tty)
			n, err := v.typists.take(id, c, fd, b)
			v.tree.main.recorder().typed(b[:max(n, 0)], shows)
			return n, err
		})
		if err != nil {
			return err
		}
		select {
		case more <- struct{}{}:
		default: // what is said next says this, too
		}
	}
	return nil
}

// tellTaken tells a typist what was taken, each time that there is more, until the client is gone.
func (v *clients) tellTaken(c net.Conn, id string, more <-chan struct{}) {
	for range more {
		if attach.WriteJSON(c, attach.FrameTaken, attach.Taken{Taken: v.typists.taken(id)}) != nil {
			return // as who reads from it sees, too
		}
	}
}

// converseTyped is converse for a typist.
func (v *clients) converseTyped(ctx context.Context, c net.Conn, r attach.Request) error {
	if v.tree.main.tty == nil {
		return fmt.Errorf("session %s has no terminal", v.name)
	}
	taken, err := v.typists.come(r.Typist, r.From, r.Again || r.From > 0 || r.Seen > 0, c)
	if err != nil {
		return fmt.Errorf("session %s: %w", v.name, err)
	}
	defer v.typists.leave(r.Typist, c)
	if r.Screen && v.tree.main.shown != nil {
		return v.watch(ctx, c, r, taken)
	}
	leave := v.tree.main.shown.join(v.gate, false)
	defer leave()
	from, err := v.welcome(c, r, taken)
	if err != nil {
		return nil // the client is gone
	}
	if err := v.tree.main.resize(attach.Size{Rows: r.Rows, Cols: r.Cols}); err != nil {
		return err
	}
	return v.converse(ctx, c, v.tree.main, from, func(ctx context.Context) { v.receiveTyped(ctx, c, r) })
}
