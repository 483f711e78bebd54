package docker

import (
	"bytes"
	"io"
	"strings"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/workers/driver"
)

// runtimeSays is how the engine's runtime begins what it says in the place of the output of a
// command that it can't run, and runtimeMost how much of that is kept, in bytes.
var runtimeSays = []byte("OCI runtime exec failed: ")

const runtimeMost = 4096

// excuse is a writer that passes output on, and keeps back what may be the runtime's excuse:
// whether it is, the engine says when the command would have ended.
type execOutput struct {
	to   io.Writer
	said []byte
	past bool // it isn't, or was too long
}

func (e *execOutput) Write(p []byte) (int, error) {
	if e.past {
		return e.to.Write(p)
	}
	e.said = append(e.said, p...)
	n := min(len(e.said), len(runtimeSays))
	if bytes.Equal(e.said[:n], runtimeSays[:n]) && len(e.said) <= runtimeMost {
		return len(p), nil
	}
	return len(p), e.pass()
}

// pass lets go of what was kept back.
func (e *execOutput) pass() error {
	said := e.said
	e.past, e.said = true, nil
	if len(said) == 0 {
		return nil
	}
	_, err := e.to.Write(said)
	return err
}

// excused tells a client of a command that was never run, with the status that a shell would
// give it, the same with every engine; ok is false if it isn't that.
func (e *execOutput) reportFailure(conn io.Writer, pid int, name string) (ok bool, err error) {
	if e.past || pid != 0 || len(e.said) < len(runtimeSays) {
		return false, nil
	}
	_, text, _ := strings.Cut(strings.TrimSpace(string(e.said)), string(runtimeSays))
	text = strings.TrimPrefix(strings.TrimPrefix(text, "exec failed: "), "unable to start container process: ")
	status := driver.NotExecutable
	if strings.Contains(text, "executable file not found") || strings.Contains(text, "exec: \""+name+"\": stat ") && strings.Contains(text, "no such file or directory") {
		status = driver.NotFound
	}
	if err := attach.WriteFrame(conn, attach.FrameStderr, []byte("diapause: no command could be run in the container: "+text+"\n")); err != nil {
		return true, err
	}
	return true, exit(conn, status)
}
