package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// linesKept bounds how many lines of a container's output are asked for.
const linesKept = "20000"

// Dial implements driver.Dialer: the connection reads output, uses the container's terminal,
// runs commands in it and copies files.
func (d *Driver) Dial(ctx context.Context, uid schemas.UID) (net.Conn, error) {
	n, err := d.begun(ctx, uid)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	go func() { // it ends with the connection
		defer ours.Close()
		if err := d.converse(n, ours); err != nil {
			_ = attach.WriteError(ours, err.Error()) // whoever asked is gone, then
		}
	}()
	return theirs, nil
}

// begins is how long the engine may take to start a container that is recorded to run.
const begins = time.Minute

// begun gives what is known of a session that is here, once its container has begun: it is
// recorded to run before its first instruction.
func (d *Driver) begun(ctx context.Context, uid schemas.UID) (note, error) {
	ctx, stop := context.WithTimeout(ctx, begins)
	defer stop()
	for {
		n, err := d.notes.read(uid)
		var c *container.InspectResponse
		if err == nil {
			_, c, err = d.instance(ctx, n)
		}
		if err == nil && (c == nil || c.State.Dead || c.State.Status == container.StateRemoving) {
			return n, driver.ErrNotHere // it is on its way out: its output is kept elsewhere
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
func (d *Driver) converse(n note, conn net.Conn) error {
	r, err := attach.ReadRequest(conn)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	switch r.Op {
	case attach.OpOutput:
		go watchEnd(conn, stop)
		return d.output(ctx, n, r, conn)
	case attach.OpExec:
		return d.exec(ctx, stop, n, r, conn)
	case attach.OpAttach:
		return d.attach(ctx, stop, n, r, conn)
	case attach.OpPut:
		return d.put(ctx, n, r, conn)
	case attach.OpGet:
		go watchEnd(conn, stop)
		return d.get(ctx, n, r, conn)
	}
	return fmt.Errorf("session %s is a container, which knows no request %q", n.Name, r.Op)
}

// watchEnd calls stop when the other end of a connection is closed.
func watchEnd(conn net.Conn, stop func()) {
	_, _ = io.Copy(io.Discard, conn) // until it ends
	stop()
}

// frames sends output as frames of one kind.
type frames struct {
	conn io.Writer
	kind byte
}

func (f frames) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), attach.MaxFrame)
		if err := attach.WriteFrame(f.conn, f.kind, rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// copyOutput sends what a container prints, of which a terminal makes one stream.
func copyOutput(conn io.Writer, r io.Reader, tty bool) error {
	return copyStreams(frames{conn, attach.FrameStdout}, frames{conn, attach.FrameStderr}, r, tty)
}

func copyStreams(out, errs io.Writer, r io.Reader, tty bool) error {
	var err error
	if tty {
		_, err = io.Copy(out, r)
	} else {
		_, err = stdcopy.StdCopy(out, errs, r)
	}
	return err
}

func exit(conn io.Writer, code int) error {
	data, err := json.Marshal(schemas.ExitStatus{Code: code})
	if err != nil {
		return err
	}
	return attach.WriteFrame(conn, attach.FrameExit, data)
}

// output sends what the container has printed since it was made here.
func (d *Driver) output(ctx context.Context, n note, r attach.Request, conn net.Conn) error {
	got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return nil // the connection ends without a word: its output is elsewhere by now, whoever asks again finds it
	}
	if err != nil {
		return d.asked("look at the container of session "+n.Name.String(), err)
	}
	o := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: r.Follow, Tail: linesKept}
	if r.Tail == 0 {
		o.Tail = "0"
	}
	logs, err := d.engine.ContainerLogs(ctx, n.Container, o)
	if missing(err) || err != nil && strings.Contains(err.Error(), "marked for removal") {
		return nil // likewise
	}
	if err != nil {
		return d.asked("read the output of the container of session "+n.Name.String(), err)
	}
	defer logs.Close()
	if err := attach.WriteFrame(conn, attach.FrameStarted, nil); err != nil {
		return err
	}
	if err := copyOutput(conn, logs, got.Container.Config.Tty); err != nil {
		return err
	}
	return exit(conn, 0)
}

// exec runs a command in the container, and carries its streams.
func (d *Driver) exec(ctx context.Context, stop func(), n note, r attach.Request, conn net.Conn) error {
	size := client.ConsoleSize{}
	if r.TTY {
		size = client.ConsoleSize{Height: uint(max(r.Rows, 1)), Width: uint(max(r.Cols, 1))}
	}
	made, err := d.engine.ExecCreate(ctx, n.Container, client.ExecCreateOptions{
		User: r.User, TTY: r.TTY, AttachStdin: r.Stdin, AttachStdout: true, AttachStderr: true, Env: r.Env, WorkingDir: r.Dir, Cmd: r.Argv,
	})
	if err != nil {
		return d.noCommand(ctx, n, err)
	}
	got, err := d.engine.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: r.TTY})
	if err != nil {
		return d.asked("run a command in the container of session "+n.Name.String(), err)
	}
	defer got.Close()
	if err := attach.WriteFrame(conn, attach.FrameStarted, nil); err != nil {
		return err
	}
	resize := func(s client.ConsoleSize) {
		_, _ = d.engine.ExecResize(ctx, made.ID, client.ExecResizeOptions(s)) // the next one tells
	}
	if r.TTY {
		resize(size)
	}
	go func() {
		passInput(conn, got.HijackedResponse, resize)
		stop()
		got.Close() // the client is gone
	}()
	out := &excuse{to: frames{conn, attach.FrameStdout}}
	if err := copyStreams(out, frames{conn, attach.FrameStderr}, got.Reader, r.TTY); err != nil {
		return err
	}
	end, err := d.engine.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
	if err != nil {
		return d.asked("learn how a command in the container of session "+n.Name.String()+" ended", err)
	}
	if ok, err := out.excused(conn, end.PID, r.Argv[0]); ok || err != nil {
		return err
	}
	if err := out.pass(); err != nil {
		return err
	}
	return exit(conn, end.ExitCode)
}

// noCommand tells why the engine took no command for a container.
func (d *Driver) noCommand(ctx context.Context, n note, cause error) error {
	cause = d.asked("run a command in the container of session "+n.Name.String(), cause)
	now, err := d.notes.read(n.UID)
	if err != nil || now.Phase != here { // it is captured, or on its way out
		return cause
	}
	got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil {
		return cause
	}
	name, verb := got.Container.Name[1:], "start"
	switch s := got.Container.State; {
	case s.Paused:
		verb = "unpause"
	case s.Running || s.Restarting || s.Dead || s.Status == container.StateRemoving:
		return cause
	}
	return refuse("session %s: its container %s is %s, and no command can run in it; `docker %s %s` changes that", n.Name, name, got.Container.State.Status, verb, name)
}

// passInput gives a command what the client sends, until the connection ends.
func passInput(conn io.Reader, to client.HijackedResponse, resize func(client.ConsoleSize)) {
	for {
		kind, payload, err := attach.ReadFrame(conn)
		if err != nil {
			return
		}
		switch kind {
		case attach.FrameStdin:
			_, _ = to.Conn.Write(payload) // a command that takes no more has its last words to say
		case attach.FrameStdinEOF:
			_ = to.CloseWrite() // likewise
		case attach.FrameResize:
			var s attach.Size
			if json.Unmarshal(payload, &s) == nil {
				resize(client.ConsoleSize{Height: uint(s.Rows), Width: uint(s.Cols)})
			}
		}
	}
}
