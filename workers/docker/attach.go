package docker

import (
	"context"
	"io"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/attach"
)

// detachKeys end an attachment at the engine. It is the key that clients keep for
// themselves, so that every other one gets through.
const detachKeys = "ctrl-]"

// attach carries what the container's terminal shows and what is typed to it, until either
// side ends. What the container had printed comes first, as much of it as was asked for.
func (t *talker) attach(ctx context.Context, stop func(), n note, r attach.Request, conn io.ReadWriter) error {
	got, err := t.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return nil // it is suspended or removed: the connection ends without a word
	}
	if err != nil {
		return t.engine.failed("look at the container of session "+n.Name.String(), err)
	}
	c := &got.Container
	if !c.Config.Tty {
		return refuse("session %[1]s has no terminal: its container was made without one; `diapause logs -f %[1]s` shows what it prints, and `diapause exec --tty %[1]s -- sh` opens a shell in it", n.Name)
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
		_, _ = t.engine.ContainerResize(ctx, n.Container, client.ContainerResizeOptions(s)) // the next one tells
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

// tellEnd says how a container ended, if it did so by itself: of one that was suspended or
// removed whoever asks again hears more.
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

// tailLines bounds how many lines are read to show the last bytes of the output.
const tailLines = 200

// showTail sends the last bytes of what a container with a terminal has printed.
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
		return nil // some engines keep none
	}
	defer logs.Close()
	said, err := io.ReadAll(logs)
	if err != nil {
		return nil // it is no less of a terminal for that
	}
	if size > 0 && int64(len(said)) > size {
		said = said[int64(len(said))-size:]
	}
	_, err = frames{conn, attach.FrameStdout}.Write(said)
	return err
}
