package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// clients serves the clients of the session: its terminal and output, more commands
// and copies.
type clients struct {
	name    schemas.Name
	gate    *gate
	tree    *processes
	runner  *runner
	typists *typists // to the main command
	viewers *viewers // of the desktop

	count   atomic.Int64 // being served
	lookers atomic.Int64 // of them, those that watch by a share
	silent  atomic.Bool  // the session is killed: clients aren't told how it ended
}

// attend serves one client.
func (v *clients) attend(c *net.UnixConn) {
	defer c.Close()
	v.count.Add(1)
	defer v.count.Add(-1)
	r, err := attach.ReadRequest(c)
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		switch r.Op {
		case attach.OpAttach:
			err = v.attach(ctx, c, r)
		case attach.OpExec:
			err = v.serveExec(ctx, c, r)
		case attach.OpRejoin:
			err = v.rejoin(ctx, c, r)
		case attach.OpOutput:
			err = v.output(ctx, c, r)
		case attach.OpWatch:
			err = v.lookOn(ctx, c, r)
		case attach.OpScreen:
			err = v.screen(c)
		case attach.OpPut:
			err = v.put(ctx, c, r)
		case attach.OpGet:
			err = v.get(ctx, c, r)
		case attach.OpForward:
			err = v.forward(ctx, c, r)
		default:
			err = fmt.Errorf("the shim knows no request %q", r.Op)
		}
	}
	if err != nil {
		answerError(c, r, err)
	}
}

// answerError tells a client why its request failed. A command that can't be run ends
// with a status, as in a shell. A client that is gone needs no answer.
func answerError(c net.Conn, r attach.Request, err error) {
	var refusal *driver.Error
	if r.Op == attach.OpExec && errors.As(err, &refusal) && refusal.Status > 0 {
		if attach.WriteFrame(c, attach.FrameStderr, []byte("diapause: "+err.Error()+"\n")) == nil {
			_ = attach.WriteJSON(c, attach.FrameExit, schemas.ExitStatus{Code: refusal.Status})
		}
		return
	}
	_ = attach.WriteError(c, err.Error())
}

func (v *clients) attach(ctx context.Context, c net.Conn, r attach.Request) error {
	if r.Typist != "" {
		return v.converseTyped(ctx, c, r)
	}
	if err := attach.WriteFrame(c, attach.FrameStarted, nil); err != nil {
		return nil
	}
	from := v.tree.main.log.Tail(tail(r.Tail))
	if v.tree.main.tty != nil {
		if err := v.tree.main.resize(attach.Size{Rows: r.Rows, Cols: r.Cols}); err != nil {
			return err
		}
		leave := v.tree.main.shown.join(v.gate, false)
		defer leave()
	}
	return v.converse(ctx, c, v.tree.main, from, func(ctx context.Context) { v.receiveInput(ctx, c, v.tree.main, v.tree.main.tty != nil, r.By) })
}

// execWait is how long a new command waits for the end of a capture. Its client
// may be gone by then, so it is short.
const execWait = 10 * time.Second

func (v *clients) serveExec(ctx context.Context, c net.Conn, r attach.Request) error {
	within, cancel := context.WithTimeout(ctx, execWait)
	cmd, err := v.runner.exec(within, r)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("session %s is being captured: try again", v.name)
	}
	if err != nil {
		return err
	}
	defer cmd.closeAtEnd()
	if r.Typist != "" {
		leave := cmd.take(c)
		defer leave()
		return v.converseNamed(ctx, c, cmd, 0)
	}
	if err := attach.WriteFrame(c, attach.FrameStarted, nil); err != nil {
		return nil // it runs on without its client
	}
	cmd.log.Hold(0)
	defer cmd.log.Release()
	return v.converse(ctx, c, cmd, 0, func(ctx context.Context) { v.receiveInput(ctx, c, cmd, r.TTY || r.Stdin, "") })
}

// converse carries a command's output to a client until the command or the
// client ends, and has receive carry the client's input to the command.
func (v *clients) converse(ctx context.Context, c net.Conn, cmd *command, from int64, receive func(context.Context)) error {
	return v.converseBy(ctx, c, cmd, func(ctx context.Context) error { return sendOutput(ctx, c, cmd.log, from, cmd.exec) }, receive)
}

// converseBy is converse with another way to send the output.
func (v *clients) converseBy(ctx context.Context, c net.Conn, cmd *command, send func(context.Context) error, receive func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel() // the client is gone
		receive(ctx)
	}()
	if err := send(ctx); err != nil || v.silent.Load() {
		return nil // a killed session has no end of its own to report
	}
	return attach.WriteJSON(c, attach.FrameExit, cmd.exit)
}

// sendOutput returns nil when the log has ended and all of it is sent.
func sendOutput(ctx context.Context, c net.Conn, log *backlog.Log, from int64, hold bool) error {
	for {
		stream, b, next, err := log.Next(ctx, from)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := attach.WriteOutput(c, stream, b); err != nil {
			return err
		}
		if from = next; hold {
			log.Hold(from)
		}
	}
}

// receiveInput returns when the client is gone.
func (v *clients) receiveInput(ctx context.Context, c net.Conn, cmd *command, input bool, by schemas.MadeBy) {
	for {
		kind, payload, err := attach.ReadFrame(c)
		if err != nil {
			return
		}
		switch {
		case kind == attach.FrameStdin && input:
			cmd.shown.typedBy(by)
			err = cmd.write(ctx, v.gate, payload)
		case kind == attach.FrameStdinEOF && input && cmd.exec:
			err = cmd.closeInput(ctx, v.gate)
		case kind == attach.FrameResize && cmd.tty != nil:
			var size attach.Size
			if err = json.Unmarshal(payload, &size); err == nil {
				err = cmd.resize(size)
			}
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, errEnded) {
			return
		}
		// Input that a command doesn't take (it closed its end) is dropped; its
		// output goes on.
	}
}

func tail(n int64) int64 {
	if n < 0 {
		return attach.OutputKept * 2
	}
	return n
}

// output sends what the main command wrote, and goes on if asked to.
func (v *clients) output(ctx context.Context, c net.Conn, r attach.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := v.tree.main.log.Tail(tail(r.Tail))
	if r.Positions {
		start, _ := v.tree.main.log.Span()
		if from = max(start, r.Seen); attach.WriteJSON(c, attach.FrameStarted, attach.Taken{At: from}) != nil {
			return nil
		}
	}
	if !r.Follow {
		_, end := v.tree.main.log.Span()
		return sendSpan(ctx, c, v.tree.main.log, from, end)
	}
	go func() {
		defer cancel()
		// The client sends nothing: what ends this read is its going.
		_, _, _ = attach.ReadFrame(c)
	}()
	if err := sendOutput(ctx, c, v.tree.main.log, from, false); err != nil || v.silent.Load() {
		return nil
	}
	return attach.WriteJSON(c, attach.FrameExit, v.tree.main.exit)
}

func sendSpan(ctx context.Context, c net.Conn, log *backlog.Log, from, end int64) error {
	for from < end {
		stream, b, next, err := log.Next(ctx, from)
		if err != nil {
			break
		}
		if err := attach.WriteOutput(c, stream, b); err != nil {
			return nil
		}
		from = next
	}
	return attach.WriteJSON(c, attach.FrameExit, schemas.ExitStatus{})
}

// The clients of a session that ended by itself get its last output and its
// status. There is no signal for that, and one that reads slowly isn't waited for.
const (
	lastWordsWait = 2 * time.Second
	lastWordsPoll = 2 * time.Millisecond
)

// awaitLastWords waits until the clients of a session that ended by itself have
// been served, but not for long.
func (v *clients) awaitLastWords() {
	select {
	case <-v.tree.main.done:
	default:
		return // it is killed now: there are none
	}
	for end := time.Now().Add(lastWordsWait); v.count.Load() > 0 && time.Now().Before(end); {
		time.Sleep(lastWordsPoll)
	}
}
