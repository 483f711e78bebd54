package docker

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// What the engine says in the place of a command's output is told as an error with the status
// that a shell gives; a command that prints the same words has printed them.
func TestRuntimeError(t *testing.T) {
	t.Parallel()
	const missing = `OCI runtime exec failed: exec failed: unable to start container process: exec: "nope": executable file not found in $PATH: unknown`
	const absent = `OCI runtime exec failed: exec failed: unable to start container process: exec: "/nope": stat /nope: no such file or directory: unknown`
	const denied = `OCI runtime exec failed: exec failed: unable to start container process: exec: "/etc": permission denied: unknown`
	const nowhere = `OCI runtime exec failed: exec failed: unable to start container process: chdir to cwd ("/no") set in config.json failed: no such file or directory: unknown`
	long := "OCI runtime exec failed: " + string(bytes.Repeat([]byte("x"), runtimeMost))
	for _, c := range []struct {
		said, name string
		pid        int
		status     int // 0: it is the command's own
	}{
		{missing, "nope", 0, 127}, {absent, "/nope", 0, 127}, {denied, "/etc", 0, 126}, {nowhere, "true", 0, 126},
		{missing, "nope", 17, 0}, {"OCI run", "x", 0, 0}, {"hello", "x", 0, 0}, {"", "x", 0, 0}, {long, "x", 0, 0},
	} {
		for _, step := range []int{1, 7, len(c.said) + 1} { // as it may arrive
			var out, answer bytes.Buffer
			e := &execOutput{to: &out}
			for rest := []byte(c.said); len(rest) > 0; {
				n := min(step, len(rest))
				must[int](t)(e.Write(rest[:n]))
				rest = rest[n:]
			}
			ok, err := e.reportFailure(&answer, c.pid, c.name)
			if err == nil && !ok {
				err = e.pass()
			}
			if err != nil || ok != (c.status > 0) || !ok && out.String() != c.said || ok && out.Len() > 0 {
				t.Errorf("%.60q, in steps of %d: told %t, %v; passed on %.60q", c.said, step, ok, err, out.String())
			}
			if ok {
				statusIn(t, &answer, c.said, c.status)
			}
		}
	}
}

// statusIn compares the status that an answer has after its text.
func statusIn(t *testing.T, answer io.Reader, said string, want int) {
	t.Helper()
	kind, text, err := attach.ReadFrame(answer)
	if err != nil || kind != attach.FrameStderr || !bytes.HasPrefix(text, []byte("diapause: ")) {
		t.Fatalf("%.60q: first %q %q, %v", said, kind, text, err)
	}
	var end schemas.ExitStatus
	if kind, text, err = attach.ReadFrame(answer); err != nil || kind != attach.FrameExit {
		t.Fatalf("%.60q: then %q %q, %v", said, kind, text, err)
	}
	if err := json.Unmarshal(text, &end); err != nil || end.Code != want {
		t.Errorf("%.60q has status %d, %v, want %d", said, end.Code, err, want)
	}
}
