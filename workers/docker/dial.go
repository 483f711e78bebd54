package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// talker serves the connections of sessions: output, commands, terminals and copies.
type talker struct {
	engine *engine
	notes  *notes
	states *states
	gates  *gates
}

// dial implements driver.Dialer: the connection reads output, uses the container's terminal,
// runs commands in it and copies files.
func (t *talker) dial(ctx context.Context, uid schemas.UID) (net.Conn, error) {
	n, err := t.states.awaitStarted(ctx, uid)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	go func() { // it returns when the connection ends
		defer ours.Close()
		if err := t.converse(n, ours); err != nil {
			_ = attach.WriteError(ours, err.Error()) // the client is gone, then
		}
	}()
	return theirs, nil
}

// startWait bounds how long the engine may take to start a container that is recorded to run.
const startWait = time.Minute

// awaitStarted waits until the container of a session has started, and gives the session's note.
// A session is recorded to run before its first instruction.
func (s *states) awaitStarted(ctx context.Context, uid schemas.UID) (note, error) {
	ctx, stop := context.WithTimeout(ctx, startWait)
	defer stop()
	for {
		n, err := s.notes.read(uid)
		var c *container.InspectResponse
		if err == nil {
			_, c, err = s.instance(ctx, n)
		}
		if err == nil && (c == nil || c.State.Dead || c.State.Status == container.StateRemoving) {
			return n, driver.ErrNotHere // it is being removed: its output is stored elsewhere
		}
		if !errors.Is(err, driver.ErrNotHere) || n.Phase == gone || n.Phase == held {
			return n, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return n, err
		}
	}
}

// converse answers the one request of a connection.
func (t *talker) converse(n note, conn net.Conn) error {
	r, err := attach.ReadRequest(conn)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	switch r.Op {
	case attach.OpOutput:
		go watchEnd(conn, stop)
		return t.output(ctx, n, r, conn)
	case attach.OpExec:
		return t.exec(ctx, stop, n, r, conn)
	case attach.OpAttach:
		return t.attach(ctx, stop, n, r, conn)
	case attach.OpPut:
		return t.put(ctx, n, r, conn)
	case attach.OpGet:
		go watchEnd(conn, stop)
		return t.get(ctx, n, r, conn)
	case attach.OpForward:
		return t.forward(ctx, n, r, conn)
	}
	return fmt.Errorf("session %s is a container: unknown request %q", n.Name, r.Op)
}

// watchEnd calls stop when the other end of a connection is closed.
func watchEnd(conn net.Conn, stop func()) {
	_, _ = io.Copy(io.Discard, conn) // until the other end is closed
	stop()
}
