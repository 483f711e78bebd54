package docker

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// A port that only the container's own loopback has is reached, and what the engine's end of a
// container cuts off isn't taken for the end of an answer.
func TestForward(t *testing.T) {
	x := newTester(t)
	x.start("a", dockerspec.With(schemas.Spec{Command: []string{"sh", "-c",
		`echo "echo first; sleep 1000000" >/tmp/slow; echo content >/tmp/file; chmod +x /tmp/slow; nc -ll -p 8081 -e sh /tmp/slow & exec httpd -f -p 127.0.0.1:8080 -h /tmp`}}, dockerspec.Options{}))
	x.sh("a", "for i in $(seq 600); do netstat -ltn | grep -q :8080 && netstat -ltn | grep -q :8081 && exit; sleep 0.1; done; exit 1")
	user, ended := x.forward("a", 8080)
	if _, err := io.WriteString(user, "GET /file HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(user); err != nil || !strings.HasSuffix(string(b), "content\n") {
		t.Errorf("the server answers %q, %v", b, err)
	}
	user.Close()
	if err := <-ended; err != nil {
		t.Errorf("the connection ends with %v", err)
	}

	var refused attach.RefusedError
	if _, ended := x.forward("a", 8082); !errors.As(<-ended, &refused) {
		t.Error("a port where nothing listens is connected to")
	}

	user, ended = x.forward("a", 8081)
	if _, err := io.ReadFull(user, make([]byte, len("first\n"))); err != nil {
		t.Fatal(err)
	}
	x.capture("a", 2)
	if err := x.d.Stop(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(user); err == nil {
		t.Errorf("after a suspend the user reads %q and then a clean end", b)
	}
	if err := <-ended; !errors.Is(err, attach.ErrReset) {
		t.Errorf("after a suspend the connection ends with %v", err)
	}
}

// forward connects to a port of a session, and gives the user's end.
func (x *tester) forward(name string, port uint16) (user net.Conn, ended <-chan error) {
	x.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.t.Fatal(err)
	}
	defer l.Close()
	if user, err = net.Dial("tcp", l.Addr().String()); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { user.Close() })
	if err := user.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		x.t.Fatal(err)
	}
	local, err := l.Accept()
	if err != nil {
		x.t.Fatal(err)
	}
	conn, err := x.d.Dial(context.Background(), drivertest.Fence(name, 1).UID)
	if err != nil {
		x.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- attach.Forward(conn, port, func() (net.Conn, error) { return local, nil }) }()
	return user, done
}
