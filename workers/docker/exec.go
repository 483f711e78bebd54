package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/attach"
)

// exec runs a command in the container and connects the client with its streams.
func (t *talker) exec(ctx context.Context, stop func(), n note, r attach.Request, conn net.Conn) error {
	size := client.ConsoleSize{}
	if r.TTY {
		size = client.ConsoleSize{Height: uint(max(r.Rows, 1)), Width: uint(max(r.Cols, 1))}
	}
	made, err := t.engine.ExecCreate(ctx, n.Container, client.ExecCreateOptions{
		User: r.User, TTY: r.TTY, AttachStdin: r.Stdin, AttachStdout: true, AttachStderr: true, Env: r.Env, WorkingDir: r.Dir, Cmd: r.Argv,
	})
	if err != nil {
		return t.noCommand(ctx, n, err)
	}
	got, err := t.engine.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: r.TTY})
	if err != nil {
		return t.engine.failed("run a command in the container of session "+n.Name.String(), err)
	}
	defer got.Close()
	if err := attach.WriteFrame(conn, attach.FrameStarted, nil); err != nil {
		return err
	}
	resize := func(s client.ConsoleSize) {
		_, _ = t.engine.ExecResize(ctx, made.ID, client.ExecResizeOptions(s)) // the next change of size is another try
	}
	if r.TTY {
		resize(size)
	}
	go func() {
		passInput(conn, got.HijackedResponse, resize)
		stop()
		got.Close() // the client is gone
	}()
	out := &execOutput{to: frames{conn, attach.FrameStdout}}
	if err := copyStreams(out, frames{conn, attach.FrameStderr}, got.Reader, r.TTY); err != nil {
		return err
	}
	end, err := t.engine.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
	if err != nil {
		return t.engine.failed("tell the exit status of a command in session "+n.Name.String(), err)
	}
	if ok, err := out.reportFailure(conn, end.PID, r.Argv[0]); ok || err != nil {
		return err
	}
	if err := out.pass(); err != nil {
		return err
	}
	return exit(conn, end.ExitCode)
}

// noCommand explains why the engine refused to run a command in a container.
func (t *talker) noCommand(ctx context.Context, n note, cause error) error {
	cause = t.engine.failed("run a command in the container of session "+n.Name.String(), cause)
	now, err := t.notes.read(n.UID)
	if err != nil || now.Phase != here { // it is being captured or removed
		return cause
	}
	got, err := t.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
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
	return hinted(refuse("run a command in session %s: its container is %s", n.Name, got.Container.State.Status), fmt.Sprintf("`docker %s %s` changes that", verb, name))
}

// passInput passes what the client sends to a command until the connection ends.
func passInput(conn io.Reader, to client.HijackedResponse, resize func(client.ConsoleSize)) {
	for {
		kind, payload, err := attach.ReadFrame(conn)
		if err != nil {
			return
		}
		switch kind {
		case attach.FrameStdin:
			_, _ = to.Conn.Write(payload) // the command may still print when it reads no more
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
