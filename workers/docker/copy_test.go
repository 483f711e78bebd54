package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// A copy and a capture keep out of each other's way: what has been copied is in the image,
// and what comes during a capture waits until it is over, or is refused.
func TestCopyAndCapture(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	ahead := make(chan struct{})
	x.arm(failpoint.DockerAhead, func(context.Context) error { close(ahead); return nil })
	spec := dockerspec.With(schemas.Spec{Command: []string{"sleep", "1000000"}}, dockerspec.Options{})
	x.start("a", spec)
	stream, feed := io.Pipe()
	copied := make(chan error, 1)
	go func() { copied <- x.put("a", "/tmp", stream) }()
	whole := tarOf(t, "f", strings.Repeat("x", 100<<10))
	if _, err := feed.Write(whole[:50<<10]); err != nil { // it has started, and isn't over
		t.Fatal(err)
	}
	taken := make(chan *drivertest.Image, 1)
	go func() {
		img, _ := x.capture("a", 2)
		taken <- img
	}()
	<-ahead
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // a capture that doesn't wait pauses it at once
		if n := must[note](t)(x.d.notes.read("a")); n.Phase == frozen {
			t.Fatal("it is captured in the middle of a copy")
		}
	}
	if _, err := feed.Write(whole[50<<10:]); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if err := <-copied; err != nil {
		t.Fatal(err)
	}
	img := <-taken
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := x.d.talker.enter(ctx, "a"); err == nil || !strings.Contains(err.Error(), "is being captured") {
		t.Errorf("a copy into what is captured: %v", err)
	}
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	x.restore("a", 3, img, spec)
	if out := x.sh("a", "stat -c %s /tmp/f"); out != "102400" {
		t.Errorf("what was copied is %q", out)
	}
}

// put copies a tar stream into a session.
func (x *tester) put(name, to string, stream io.Reader) error {
	conn, err := x.d.Dial(context.Background(), drivertest.Fence(name, 1).UID)
	if err != nil {
		return err
	}
	_, err = attach.Do(conn, attach.Request{Op: attach.OpPut, Path: to, Stdin: true}, attach.Streams{Stdin: stream})
	return err
}

// tarOf gives a tar stream of one file.
func tarOf(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
