package activityport

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

const long = 20 * time.Second

var me = schemas.Name{Tenant: "default", Session: "work"}

// serving starts a NATS server and a port that leads there, at an address of its own, and returns
// both addresses.
func serving(t *testing.T, at string, o server.Options) (port, direct string) {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	ns, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(long) {
		t.Fatal("the NATS server doesn't start")
	}
	a := netip.MustParseAddr(at)
	s, err := Listen(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	// The first takes no connection, the second wants TLS.
	s.Serve(me, ToServers("nats://127.0.54.99:1,tls://127.0.0.1:1,"+ns.ClientURL()))
	return URL(a), ns.ClientURL()
}

// connected connects a program; its errors of the protocol come over the channel.
func connected(t *testing.T, url string, o ...nats.Option) (*nats.Conn, <-chan error) {
	t.Helper()
	errs := make(chan error, 10)
	nc, err := nats.Connect(url, append(o, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, errs
}

func next(t *testing.T, errs <-chan error) string {
	t.Helper()
	select {
	case err := <-errs:
		return err.Error()
	case <-time.After(long):
		t.Fatal("no error comes")
		return ""
	}
}

func TestPublishesItsOwnActivityOnly(t *testing.T) {
	port, direct := serving(t, "127.0.54.1", server.Options{})
	all, _ := connected(t, direct)
	sub, err := all.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	all.Flush()
	nc, errs := connected(t, port)
	own := "diapause.v1.activity.default.work."
	for _, subject := range []string{
		"diapause.v1.activity.default.other.input", "diapause.v1.activity.default.work", "diapause.v1.activity.default.works.input",
		"diapause.v1.command.default.work", "$SYS.x", "_INBOX.x.y",
	} {
		if err := nc.Publish(subject, []byte("no")); err != nil {
			t.Fatal(err)
		}
		if got := strings.ToLower(next(t, errs)); !strings.Contains(got, "permissions violation for publish") || !strings.Contains(got, strings.ToLower(subject)) {
			t.Errorf("publishing on %s gives %q", subject, got)
		}
	}
	if err := nc.Publish(own+"input", []byte("yes\r\nPUB x 0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: own + "busy.build", Header: nats.Header{"K": {"V"}}, Data: []byte("lease")}
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{own + "input" + "." + schemas.FromInside, own + "busy.build." + schemas.FromInside} {
		got, err := sub.NextMsg(long)
		if err != nil || got.Subject != want {
			t.Fatalf("the server got %v (%v), want a message on %s", got, err, want)
		}
	}
	if n, _, _ := sub.Pending(); n != 0 {
		t.Errorf("the server got %d more messages", n)
	}
}

func TestAnswersReachIt(t *testing.T) {
	port, direct := serving(t, "127.0.54.2", server.Options{})
	all, _ := connected(t, direct)
	if _, err := all.Subscribe("diapause.v1.activity.>", func(m *nats.Msg) { m.Respond([]byte("stored")) }); err != nil {
		t.Fatal(err)
	}
	all.Flush()
	nc, errs := connected(t, port)
	if m, err := nc.Request("diapause.v1.activity.default.work.input", nil, long); err != nil || string(m.Data) != "stored" {
		t.Errorf("it is answered %v (%v)", m, err)
	}
	for _, subject := range []string{">", "_INBOX.>", "_INBOX.*.x", "diapause.v1.activity.>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if got := strings.ToLower(next(t, errs)); !strings.Contains(got, "permissions violation for subscription") {
			t.Errorf("subscribing to %s gives %q", subject, got)
		}
	}
}

func TestCredentialsDontPass(t *testing.T) {
	port, direct := serving(t, "127.0.54.3", server.Options{Username: "u", Password: "p"})
	connected(t, direct, nats.UserInfo("u", "p"))
	if nc, err := nats.Connect(port, nats.UserInfo("u", "p"), nats.MaxReconnects(0)); !errors.Is(err, nats.ErrAuthorization) {
		nc.Close()
		t.Errorf("with credentials it connects: %v, want %v", err, nats.ErrAuthorization)
	}
}

// raw connects without a client, and returns its INFO.
func raw(t *testing.T, port string) (net.Conn, *bufio.Reader, map[string]any) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(port, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(long))
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var info map[string]any
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatal(err)
	}
	return c, in, info
}

func TestNamesNoOtherServer(t *testing.T) {
	port, _ := serving(t, "127.0.54.4", server.Options{ClientAdvertise: "10.1.2.3:4222"})
	_, _, info := raw(t, port)
	for name := range info {
		if strings.Contains(name, "urls") || name == "host" || name == "port" || name == "client_ip" || name == "nonce" {
			t.Errorf("INFO has %s: %v", name, info[name])
		}
	}
	if info["max_payload"] == nil {
		t.Errorf("INFO has no max_payload: %v", info)
	}
}

// What isn't the protocol ends the connection, and says why.
func TestNotTheProtocol(t *testing.T) {
	port, _ := serving(t, "127.0.54.5", server.Options{})
	for text, want := range map[string]string{
		"GET / HTTP/1.1\r\n":                        "Unknown Protocol Operation",
		"CONNECT nonsense\r\n":                      "Parser Error",
		"PUB a\r\n":                                 "Parser Error",
		"PUB a 99999999999999999999\r\n":            "Parser Error",
		"PUB a 4000000000\r\n":                      "Maximum Payload Violation",
		"PUB a 1\r\nxyz\r\n":                        "Parser Error",
		"SUB " + strings.Repeat("x", 5000) + "\r\n": "Maximum Control Line Exceeded",
	} {
		c, in, _ := raw(t, port)
		fmt.Fprint(c, text)
		c.(*net.TCPConn).CloseWrite()
		line, _ := in.ReadString('\n')
		if !strings.Contains(line, want) {
			t.Errorf("%.40q is answered %q, want %q", text, line, want)
		}
	}
}

// TestRate has a program publish more than it may in a second.
func TestRate(t *testing.T) {
	port, direct := serving(t, "127.0.54.7", server.Options{})
	all, _ := connected(t, direct)
	sub, err := all.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	all.Flush()
	nc, _ := connected(t, port)
	began := time.Now()
	const messages, size = 192, LargestPayload / 2
	for range messages {
		if err := nc.Publish("diapause.v1.activity.default.work.input", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	for range messages {
		if _, err := sub.NextMsg(long); err != nil {
			t.Fatal(err)
		}
	}
	if took, least := time.Since(began), (messages*size-bytesAtOnce)/bytesPerSecond*time.Second; took < least {
		t.Errorf("%d bytes took %v, want %v at least", messages*size, took, least)
	}
}

// Of a server of this machine it is told apart what runs in sessions.
func TestSource(t *testing.T) {
	for server, want := range map[string]string{"127.0.0.1:4222": "127.222.42.22:0", "10.0.0.7:4222": "", "[::1]:4222": "", "localhost:4222": ""} {
		got := ""
		if a := source(server); a != nil {
			got = a.String()
		}
		if got != want {
			t.Errorf("to %s from %q, want %q", server, got, want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program, ours := net.Pipe()
	var passes sync.WaitGroup
	defer passes.Wait()
	defer program.Close()
	s := &Server{ctx: t.Context()}
	passes.Go(func() { s.pass(me, ToServers("nats://"+l.Addr().String()), ours) })
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr(); from != schemas.InsideSource() {
		t.Errorf("it came from %s", from)
	}
}

// TestBound has one session open more connections than it may.
func TestBound(t *testing.T) {
	port, _ := serving(t, "127.0.54.6", server.Options{})
	for range connectionsAtOnce {
		raw(t, port)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(port, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(long))
	if n, err := c.Read(make([]byte, 100)); err == nil {
		t.Errorf("one connection too many gets %d bytes", n)
	}
}
