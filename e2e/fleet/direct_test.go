package fleet

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// countsLines numbers the lines that it gets at port 8080, over all connections.
const countsLines = `
import socket, threading
n, lock = 0, threading.Lock()
def serve(c):
    global n
    for line in c.makefile():
        with lock:
            n += 1
            c.sendall(b"%d\n" % n)
served = socket.create_server(("127.0.0.1", 8080))
while True:
    c, _ = served.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
`

// advertises has a host with a network of its own take direct connections there.
func (w *host) advertises() *host {
	w.args = append(w.args, "--advertise", netip.AddrPortFrom(w.space.Addr, 7443).String())
	return w
}

// forwards is a `diapause forward` on this machine, which isn't the host of the session.
type forwards struct {
	t       *testing.T
	address string
	said    output
	lines   int // that were looked at
}

func (h *hosts) forward(name string, flags ...string) *forwards {
	h.t.Helper()
	f := &forwards{t: h.t}
	cmd := exec.Command(built.program, append([]string{"--data", h.up.Data, "forward", name, "0:8080"}, flags...)...)
	cmd.Stderr = &f.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = threadtest.Start(cmd)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until then
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		h.t.Fatalf("forward ends: %v: %s", err, f.said.String())
	}
	f.address = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	return f
}

// line is a connection to the session by a forwarder.
type line struct {
	net.Conn
	t    *testing.T
	from *bufio.Reader
}

func (f *forwards) open() line {
	f.t.Helper()
	c, err := net.Dial("tcp", f.address)
	if err == nil {
		err = c.SetDeadline(time.Now().Add(within))
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return line{c, f.t, bufio.NewReader(c)}
}

// counts wants the session to answer with a number.
func (l line) counts(want string) {
	l.t.Helper()
	fmt.Fprintln(l, "line")
	if got, err := l.from.ReadString('\n'); err != nil || got != want+"\n" {
		l.t.Fatalf("the session answers %q, %v, want %s", got, err, want)
	}
}

// reset wants the connection to have ended with an error.
func (l line) reset() {
	l.t.Helper()
	if b, err := io.ReadAll(l.from); !errors.Is(err, syscall.ECONNRESET) {
		l.t.Errorf("the connection ends with %q, %v, want a reset", b, err)
	}
}

// says wants the forwarder to say that in its next line.
func (f *forwards) says(want string) {
	f.t.Helper()
	f.lines++
	eventually(f.t, "forward says which way it is", func() error {
		said := strings.Split(f.said.String(), "\n")
		if len(said) != f.lines+1 || !strings.Contains(said[f.lines-1], want) {
			return fmt.Errorf("it says %q, want %q in line %d and no more", said, want, f.lines)
		}
		return nil
	})
}

// A client reaches a port of a session on hosts with networks of their own: directly, on each host with a
// grant of that host, and through NATS while the host's address can't be reached.
func TestForwardDirectly(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, b := h.addApart("a").advertises().start(), h.addApart("b").advertises().start()
	h.must("run", "--name", "s", "--host", string(a.id), "--idle", "never", "--network", "private", "--", "python3", "-c", countsLines)
	h.must("exec", "s", "--", "sh", "-c", "until grep -q ':1F90 ' /proc/net/tcp; do sleep 0.05; done")
	f := h.forward("s")
	first := f.open()
	first.counts("1")
	f.says(fmt.Sprintf("directly to host %s at %s:7443", a.id, a.space.Addr))
	h.cables[0].set(true) // the host's way to NATS: what is open doesn't need it
	first.counts("2")
	h.cables[0].set(false)

	h.must("move", "s", "--host", string(b.id))
	first.reset()
	second := f.open()
	second.counts("3")
	f.says(fmt.Sprintf("directly to host %s at %s:7443", b.id, b.space.Addr))
	h.must("suspend", "s")
	second.reset()
	third := f.open() // which resumes it
	third.counts("4")
	third.Close()
	g := h.forward("s", "--json")
	g.open().counts("5")
	g.says(`"way":"direct","host":"` + string(b.id) + `","address":"` + b.space.Addr.String() + `:7443"}`)

	h.grantsOf(a, b)
	b.unreachable()
	fourth, fifth := f.open(), f.open()
	fourth.counts("6")
	fifth.counts("7")
	f.says(fmt.Sprintf("connections to host %s go through NATS: dial tcp %s:7443", b.id, b.space.Addr))
	h.audit()
}

// unreachable has all that the host sends to this machine get lost, but for what goes by its cable.
func (w *host) unreachable() {
	w.hosts.t.Helper()
	err := w.space.Inside(func() error {
		out, err := exec.Command("ip", "neigh", "replace", w.space.Host.String(), "lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		w.hosts.t.Fatal(err)
	}
}

// offer gives what a host offers a client for port 8080 of a session.
func (w *host) offer(api *events.API, name string) attach.Offer {
	t := w.hosts.t
	t.Helper()
	hello, err := json.Marshal(attach.Hello{Name: name, Forward: true, Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tunnel.Dial(t.Context(), api.Conn(), schemas.SubjectHost+"."+string(w.id)+".dial", hello)
	if err != nil {
		t.Fatal(err)
	}
	var offer attach.Offer
	seen := errors.New("the offer was seen")
	_ = attach.ForwardDirect(conn, 8080, func(o attach.Offer) (net.Conn, error) { // it ends as lost
		offer = o
		here, there := net.Pipe()
		there.Close()
		return here, nil
	}, func() (net.Conn, error) { return nil, seen })
	if offer.Address == "" {
		t.Fatalf("host %s offers nothing for session %s", w.id, name)
	}
	return offer
}

// grantsOf abuses grants of host b, which has session s, and of host a.
func (h *hosts) grantsOf(a, b *host) {
	t := h.t
	t.Helper()
	api, err := events.DialAPI(t.Context(), events.Options{URL: h.up.Secure, Creds: filepath.Join(h.up.Data, "creds", "client.nk")})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	h.must("run", "--name", "other", "--host", string(a.id), "--idle", "never", "--network", "private", "--", "sleep", "100000")
	ofOther := a.offer(api, "other")
	elsewhere := b.offer(api, "s")
	elsewhere.Address, elsewhere.Fingerprint = ofOther.Address, ofOther.Fingerprint
	swapped := b.offer(api, "s")
	swapped.Fingerprint = ofOther.Fingerprint
	for what, try := range map[string]struct {
		attach.Offer
		name string
		port uint16
		want error
	}{
		"a grant of another host":    {elsewhere, "s", 8080, direct.ErrRefused},
		"a grant of another session": {b.offer(api, "s"), "other", 8080, direct.ErrRefused},
		"a grant of another port":    {b.offer(api, "s"), "s", 22, direct.ErrRefused},
		"another host's certificate": {swapped, "s", 8080, direct.ErrFingerprint},
	} {
		if _, err := direct.Dial(t.Context(), try.Offer, try.name, try.port); !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", what, err, try.want)
		}
	}
	once, early := b.offer(api, "s"), b.offer(api, "s")
	c, err := direct.Dial(t.Context(), once, "s", 8080)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := direct.Dial(t.Context(), once, "s", 8080); !errors.Is(err, direct.ErrRefused) {
		t.Errorf("a grant that was used: %v, want %v", err, direct.ErrRefused)
	}
	h.must("suspend", "s")
	h.must("ensure", "s")
	h.gaveUp(early)
}

// gaveUp wants an offer that was made before a suspend to lead nowhere.
func (h *hosts) gaveUp(o attach.Offer) {
	h.t.Helper()
	c, err := direct.Dial(h.t.Context(), o, "s", 8080)
	if errors.Is(err, direct.ErrRefused) {
		return // that took so long that it has expired
	}
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		h.t.Fatal(err)
	}
	if kind, text, err := attach.ReadFrame(c); err != nil || kind != attach.FrameError || !strings.Contains(string(text), "was suspended or moved since") {
		h.t.Errorf("the host answers %q %q, %v", kind, text, err)
	}
}
