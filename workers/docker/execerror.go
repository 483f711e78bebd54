package docker

import (
	"bytes"
	"io"
	"strings"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/workers/driver"
)

// runtimeError starts the message that the engine's runtime prints in the place of the output of
// a command that it can't run. At most runtimeMost bytes of the message are kept.
var runtimeError = []byte("OCI runtime exec failed: ")

const runtimeMost = 4096

// execOutput is a writer that passes a command's output on, but holds back what may be the
// runtime's error message. Only the state of the command after its end says whether it is.
type execOutput struct {
	to   io.Writer
	said []byte
	past bool // set once it isn't the message, or is too long for it
}

func (e *execOutput) Write(p []byte) (int, error) {
	if e.past {
		return e.to.Write(p)
	}
	e.said = append(e.said, p...)
	n := min(len(e.said), len(runtimeError))
	if bytes.Equal(e.said[:n], runtimeError[:n]) && len(e.said) <= runtimeMost {
		return len(p), nil
	}
	return len(p), e.pass()
}

// pass passes on what was held back.
func (e *execOutput) pass() error {
	said := e.said
	e.past, e.said = true, nil
	if len(said) == 0 {
		return nil
	}
	_, err := e.to.Write(said)
	return err
}

// reportFailure reports to the client that a command couldn't be run, with the status that a shell
// would give it, which engines don't agree on. ok is false if the command was run.
func (e *execOutput) reportFailure(conn io.Writer, pid int, name string) (ok bool, err error) {
	if e.past || pid != 0 || len(e.said) < len(runtimeError) {
		return false, nil
	}
	_, text, _ := strings.Cut(strings.TrimSpace(string(e.said)), string(runtimeError))
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
