package docker

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// linesKept is how many lines of a container's output are asked for at most.
const linesKept = "20000"

// frames is a writer that sends what is written as frames of one kind.
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

// copyOutput sends the output of a container. With a terminal it is one stream.
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

// output sends what the container has printed since it was created here.
func (t *talker) output(ctx context.Context, n note, r attach.Request, conn net.Conn) error {
	got, err := t.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return nil // its output is stored elsewhere by now: the next request finds it
	}
	if err != nil {
		return t.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	o := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: r.Follow, Tail: linesKept}
	if r.Tail == 0 {
		o.Tail = "0"
	}
	logs, err := t.engine.ContainerLogs(ctx, n.Container, o)
	if missing(err) || err != nil && strings.Contains(err.Error(), "marked for removal") {
		return nil // likewise
	}
	if err != nil {
		return t.engine.failed("read the output of the container of session "+n.Name.String(), err)
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
