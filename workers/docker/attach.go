package docker

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/attach"
)

// detachKeys end an attachment at the engine. Clients never send this key, so that every other
// key reaches the container.
const detachKeys = "ctrl-]"

// attach connects a client with the container's terminal until either side ends. It first
// sends as much of the earlier output as the client asked for.
func (t *talker) attach(ctx context.Context, stop func(), n note, r attach.Request, conn io.ReadWriter) error {
	got, err := t.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return nil // it is suspended or removed: the connection ends without a word
	}
	if err != nil {
		return t.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	c := &got.Container
	if !c.Config.Tty {
		return hinted(refuse("session %s has no terminal: its container was made without one", n.Name),
			fmt.Sprintf("`diapause logs -f %[1]s` shows what it prints, `diapause exec --tty %[1]s -- sh` opens a shell in it", n.Name))
	}
	at, err := t.engine.ContainerAttach(ctx, n.Container, client.ContainerAttachOptions{Stream: true, Stdin: r.Stdin, Stdout: true, DetachKeys: detachKeys})
	if err != nil {
		return t.engine.failed("attach to the container of session "+n.Name.String(), err)
	}
	defer at.Close()
	if err := attach.WriteFrame(conn, attach.FrameStarted, nil); err != nil {
		return err
	}
	if err := t.showTail(ctx, n, r.Tail, conn); err != nil {
		return err
	}
	resize := func(s client.ConsoleSize) {
		_, _ = t.engine.ContainerResize(ctx, n.Container, client.ContainerResizeOptions(s)) // the next change of size is another try
	}
	if r.Rows > 0 && r.Cols > 0 {
		resize(client.ConsoleSize{Height: uint(r.Rows), Width: uint(r.Cols)})
	}
	go func() {
		passInput(conn, at.HijackedResponse, resize)
		stop()
		at.Close() // the client is gone
	}()
	if err := copyOutput(conn, at.Reader, true); err != nil {
		return err
	}
	return t.tellEnd(ctx, n, conn)
}

// tellEnd sends the exit status of a container that ended by itself. For one that was suspended
// or removed it sends none: the client's next request is answered elsewhere.
func (t *talker) tellEnd(ctx context.Context, n note, conn io.Writer) error {
	now, err := t.notes.read(n.UID)
	if err != nil || now.Phase == frozen || now.Container != n.Container {
		return err
	}
	got, err := t.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil || got.Container.State.Status != container.StateExited {
		return nil
	}
	return exit(conn, got.Container.State.ExitCode)
}

// tailLines is how many lines are read to send the last bytes of the output.
const tailLines = 200

// showTail sends the last bytes of the output of a container with a terminal.
func (t *talker) showTail(ctx context.Context, n note, size int64, conn io.Writer) error {
	if size == 0 {
		return nil
	}
	lines := linesKept
	if size > 0 {
		lines = strconv.Itoa(tailLines)
	}
	logs, err := t.engine.ContainerLogs(ctx, n.Container, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: lines})
	if err != nil {
		return nil // some logging drivers keep none
	}
	defer logs.Close()
	said, err := io.ReadAll(logs)
	if err != nil {
		return nil // the terminal works without it
	}
	if size > 0 && int64(len(said)) > size {
		said = said[int64(len(said))-size:]
	}
	_, err = frames{conn, attach.FrameStdout}.Write(said)
	return err
}
