package forward

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// freePort gives an address of this host that is free now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// published asks at a published address in place of a forwarded one.
func published(t *testing.T, address string) *forwarder {
	return &forwarder{t: t, address: []string{address}}
}

func TestPublish(t *testing.T) {
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	address := freePort(t)
	begin(t, s, "work", "--network", "private", "--idle", "never", "--publish", address+":"+portHTTP)
	p := published(t, address)
	p.want("/count", "1")
	if out := must(t, s, "show", "work"); !strings.Contains(out, "\nports        "+address+":"+portHTTP+"\n") {
		t.Errorf("show doesn't tell of the port: %s", out)
	}
	t.Run("keeps awake", func(t *testing.T) { publishedKeepsAwake(t, s) })
	t.Run("a taken port refuses a start", func(t *testing.T) { takenAtStart(t, s, address) })
	t.Run("a taken port refuses a resume", func(t *testing.T) { takenAtResume(t, s, p) })
	t.Run("forks", func(t *testing.T) { forks(t, s, p) })
	t.Run("rolled back and verified", func(t *testing.T) { rolledBack(t, s, p) })
	t.Run("the shim is killed", func(t *testing.T) {
		c := p.open()
		if err := syscall.Kill(shimOf(t, s, "work"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.reset(c)
	})
}

// publishedKeepsAwake has an open connection keep the session from being suspended, though its client says
// nothing, and a suspend on request reset it.
func publishedKeepsAwake(t *testing.T, s *stack.Stack) {
	address := freePort(t)
	begin(t, s, "brief", "--network", "private", "--idle", "2s", "--publish", address+":"+portHTTP)
	p := published(t, address)
	must(t, s, "ensure", "brief")
	silent := p.dial(0)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got := state(t, s, "brief"); got != schemas.Running {
			t.Fatalf("with an open connection it is %s", got)
		}
	}
	c := p.open()
	must(t, s, "suspend", "brief")
	p.reset(c)
	p.reset(silent)
	if _, err := p.get("/count"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port of a suspended session gives %v", err)
	}
	must(t, s, "ensure", "brief")
	p.want("/count", "1")
	must(t, s, "rm", "--yes", "brief")
}

// takenAtStart has the port be another session's.
func takenAtStart(t *testing.T, s *stack.Stack, address string) {
	r := s.Do("run", "--name", "second", "--network", "private", "--publish", address+":80", "--", "sleep", "1000")
	if r.Code != 1 || !strings.Contains(r.Err, "port "+address+" of the host is in use") {
		t.Errorf("run ends with %d: %s", r.Code, r.Err)
	}
	if r := s.Do("show", "second"); r.Code != 3 {
		t.Errorf("of the session is left: %s", r.Out)
	}
	for _, c := range [][]string{
		{"--network", "host", "--publish", "8080:80"}, {"--publish", "8080:80", "--network", "none"}, {"--network", "private", "--publish", "80"},
		{"--network", "private", "--publish", "0:80"}, {"--network", "private", "--publish", "localhost:8080:80"},
	} {
		if r := s.Do(append(append([]string{"run", "--name", "third"}, c...), "--", "true")...); r.Code != 2 {
			t.Errorf("run %v ends with %d: %s", c, r.Code, r.Err)
		}
	}
}

// takenAtResume has something else listen there meanwhile.
func takenAtResume(t *testing.T, s *stack.Stack, p *forwarder) {
	must(t, s, "suspend", "work")
	l, err := net.Listen("tcp", p.address[0])
	if err != nil {
		t.Fatal(err)
	}
	r := s.Do("resume", "work")
	if r.Code != 1 || !strings.Contains(r.Err, "port "+p.address[0]+" of the host is in use") {
		t.Errorf("resume ends with %d: %s", r.Code, r.Err)
	}
	l.Close()
	if got := state(t, s, "work"); got != schemas.Suspended {
		t.Errorf("after a resume that was refused it is %s", got)
	}
	must(t, s, "resume", "work")
	p.want("/count", "2")
}

// forks has a fork need ports of its own.
func forks(t *testing.T, s *stack.Stack, p *forwarder) {
	r := s.Do("fork", "work", "copy")
	if r.Code != 1 || !strings.Contains(r.Err, "is in use") || !strings.Contains(r.Err, "--publish") {
		t.Errorf("fork ends with %d: %s", r.Code, r.Err)
	}
	if r := s.Do("show", "copy"); r.Code != 3 {
		t.Errorf("of the fork is left: %s", r.Out)
	}
	must(t, s, "fork", "--publish", "none", "work", "closed")
	if out := must(t, s, "show", "closed"); strings.Contains(out, "\nports") {
		t.Errorf("a fork without ports shows some: %s", out)
	}
	other := freePort(t)
	must(t, s, "fork", "--publish", other+":"+portHTTP, "work", "copy")
	q := published(t, other)
	p.want("/count", "3")
	q.want("/count", "3")
	must(t, s, "suspend", "copy")
	must(t, s, "ensure", "copy")
	q.want("/count", "4")
	must(t, s, "rm", "--yes", "copy", "closed")
}

// rolledBack takes the session back, and has its snapshot tried beside it.
func rolledBack(t *testing.T, s *stack.Stack, p *forwarder) {
	must(t, s, "checkpoint", "work")
	v, err := s.View("work")
	if err != nil {
		t.Fatal(err)
	}
	must(t, s, "verify", "--restore", "work")
	p.want("/count", "4")
	must(t, s, "rollback", "work", v.Snapshot.ID)
	p.want("/count", "4")
}
