package fleet

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network/networktest"
)

// space is the network of a host of its own: the machine that runs the tests is its router and its
// outside.
type space struct {
	*networktest.Outside
	resolver string // its resolv.conf
}

// addApart adds a host whose network is a namespace, whose name server tells its own address for each name,
// and which reaches NATS by a cable.
func (h *hosts) addApart(name string) *host {
	h.t.Helper()
	w := h.add(name)
	o := networktest.New(h.t)
	o.Route(h.t)
	w.space = &space{Outside: o, resolver: filepath.Join(h.dir, name+".resolv.conf")}
	if err := os.WriteFile(w.space.resolver, fmt.Appendf(nil, "nameserver %s\n", o.Host), 0o644); err != nil {
		h.t.Fatal(err)
	}
	serveNames(h.t, o.Host, o.Addr)
	var l net.Listener
	if err := o.Inside(func() (err error) {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	w.wireBy(&cable{listener: l})
	return w
}

// command runs the program with the host's own resolv.conf.
func (s *space) command(args ...string) *exec.Cmd {
	return exec.Command("unshare", append([]string{"--mount", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, s.resolver}, args...)...)
}

// serveNames answers each question for an address of a name with the same one.
func serveNames(t *testing.T, at, address netip.Addr) {
	t.Helper()
	c, err := net.ListenPacket("udp4", netip.AddrPortFrom(at, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
					Body:   &dnsmessage.AResource{A: address.As4()},
				}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = c.WriteTo(answer, from)
			}
		}
	}()
}

// connected is a program with a connection of each kind. It answers lines at port 8080.
const connected = `
import signal, socket, sys
outside = (sys.argv[1], int(sys.argv[2]))
inner = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(inner.getsockname()); other, _ = inner.accept()
away = socket.create_connection(outside)
sent = 0
def echo(s, text):
    s.settimeout(20); s.sendall(text); return s.recv(100).decode()
def inside():
    global sent
    sent += 1
    one.sendall(b"%d" % sent); other.sendall(other.recv(100)); return one.recv(100).decode()
answers = {
    "inside": inside,
    "outside": lambda: echo(away, b"away"),
    "new": lambda: echo(socket.create_connection(outside, 20), b"new"),
    "name": lambda: socket.gethostbyname("host.test"),
}
served = socket.create_server(("0.0.0.0", 8080))
print("ready", flush=True)
while True:
    c, _ = served.accept()
    for line in c.makefile():
        try: answer = answers[line.strip()]()
        except OSError as e: answer = "error"
        c.sendall(answer.encode() + b"\n")
`

// ask asks the session at its published port of a host.
func (w *host) ask(port int, what string) (answer string, err error) {
	err = w.space.Inside(func() error {
		c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(within)); err != nil {
			return err
		}
		fmt.Fprintln(c, what)
		answer, err = bufio.NewReader(c).ReadString('\n')
		return err
	})
	return strings.TrimSpace(answer), err
}

func (w *host) want(port int, what, want string) {
	w.hosts.t.Helper()
	if got, err := w.ask(port, what); err != nil || got != want {
		w.hosts.t.Errorf("asked for %s at host %s it answers %q, want %q: %v", what, w.id, got, want, err)
	}
}

// A session with a network of its own goes on on a host with another network: connections inside are
// as they were, those to the outside end and are named, and names, ports and new connections are those of the host
// where it is now.
func TestPrivateSessionElsewhere(t *testing.T) {
	t.Parallel()
	h := newHostsWith(t, []string{failsToResume}) // the up is a host, too
	a, b := h.addApart("a"), h.addApart("b")
	away := networktest.New(t).Host // a route away from both: what is beside a host like these isn't reached
	outside := networktest.Echo(t, away)
	a.start(failsToResume)
	b.start()
	const port = 3080
	h.must("run", "--name", "s", "--host", string(a.id), "--idle", "never", "--network", "private", "--publish", fmt.Sprintf("%d:8080", port),
		"--", "python3", "-c", connected, away.String(), fmt.Sprint(outside))
	eventually(t, "the session answers", func() error {
		_, err := a.ask(port, "name")
		return err
	})
	a.want(port, "inside", "1")
	a.want(port, "outside", "away")
	a.want(port, "new", "new")
	a.want(port, "name", a.space.Addr.String())

	h.must("suspend", "s")
	h.must("ensure", "s")
	v := h.awaitMoved("s", a, schemas.BootResume)
	if v.Host != b.id {
		t.Fatalf("it is on host %s, want %s", v.Host, b.id)
	}
	b.want(port, "inside", "2")
	b.want(port, "outside", "error")
	b.want(port, "new", "new")
	b.want(port, "name", b.space.Addr.String())
	if answer, err := a.ask(port, "inside"); err == nil {
		t.Errorf("host %s, which it left, still answers: %q", a.id, answer)
	}
	named := fmt.Sprintf("%s:%d", away, outside)
	if out := h.must("show", "s"); !strings.Contains(out, named) {
		t.Errorf("show doesn't name the connection to %s that has ended:\n%s", named, out)
	}
	h.awaitTrees(v, 1)
	h.audit()
}
