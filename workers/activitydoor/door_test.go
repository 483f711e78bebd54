package activitydoor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/strangers"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/activityport"
)

const long = 20 * time.Second

var me = schemas.Name{Tenant: "default", Session: "work"}

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

// behind starts a NATS server that wants a password, a door that has it, and a port that leads there, and returns the port's
// address, a connection with the password that hears all activity, and the server.
func behind(t *testing.T, at string) (port string, heard *nats.Subscription, ns *server.Server) {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, Username: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(long) {
		t.Fatal("the NATS server doesn't start")
	}
	worker, _ := connected(t, ns.ClientURL(), nats.UserInfo("u", "p"))
	all, _ := connected(t, ns.ClientURL(), nats.UserInfo("u", "p"))
	if heard, err = all.SubscribeSync(">"); err != nil {
		t.Fatal(err)
	}
	if err := all.Flush(); err != nil {
		t.Fatal(err)
	}
	// Longer than the address of a socket may be.
	data := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := Open(data, worker)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(d.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
	a := netip.MustParseAddr(at)
	s, err := activityport.Listen(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.Serve(me, activityport.ToDoor(data))
	return activityport.URL(a), heard, ns
}

// What a session publishes comes to a server that wants credentials, in its name alone, with the headers of activity alone.
func TestDoorPublishes(t *testing.T) {
	port, heard, _ := behind(t, "127.0.54.21")
	nc, errs := connected(t, port)
	own := "diapause.v1.activity.default.work."
	for _, subject := range []string{
		"diapause.v1.activity.default.other.input", own + "hold", own + "busy.*", "diapause.v1.api.rm", "$KV.DIAPAUSE_sessions.default.work",
	} {
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.ToLower(next(t, errs)); !strings.Contains(got, "permissions violation for publish") || !strings.Contains(got, strings.ToLower(subject)) {
			t.Errorf("publishing on %s gives %q", subject, got)
		}
	}
	for _, subject := range []string{">", "_INBOX.x.*", own + ">"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if got := strings.ToLower(next(t, errs)); !strings.Contains(got, "permissions violation for subscription") {
			t.Errorf("subscribing to %s gives %q", subject, got)
		}
	}
	m := &nats.Msg{Subject: own + "busy.build", Reply: "$KV.DIAPAUSE_sessions.default.work", Data: []byte(`{"ttl":"20s"}`), Header: nats.Header{
		"Nats-Rollup": {"all"}, "Nats-TTL": {"never"}, "ce-type": {"kept"}, "Content-Type": {"application/json"},
	}}
	if err := errors.Join(nc.PublishMsg(m), nc.Publish(own+"input", nil), nc.FlushTimeout(long)); err != nil {
		t.Fatal(err)
	}
	got, err := heard.NextMsg(long)
	if err != nil || got.Subject != own+"busy.build."+schemas.FromInside || got.Reply != "" || string(got.Data) != `{"ttl":"20s"}` {
		t.Fatalf("the server got %+v (%v)", got, err)
	}
	if h := got.Header; len(h) != 3 || h["ce-type"][0] != "kept" || h.Get("Content-Type") != "application/json" || h.Get("Nats-TTL") != "620" {
		t.Errorf("the server got the header %v", h)
	}
	if got, err := heard.NextMsg(long); err != nil || got.Subject != own+"input."+schemas.FromInside || len(got.Header) > 0 {
		t.Errorf("the server got %+v (%v)", got, err)
	}
	if n, _, _ := heard.Pending(); n != 0 {
		t.Errorf("the server got %d more messages", n)
	}
}

// Above its bounds a session has nothing more stored, but counts as used.
func TestDoorHasBounds(t *testing.T) {
	port, heard, _ := behind(t, "127.0.54.22")
	nc, errs := connected(t, port)
	own := "diapause.v1.activity.default.work."
	for n := range strangers.MostOfSession + 2 {
		if err := nc.Publish(fmt.Sprintf("%sbusy.k%d", own, n), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Publish(own+"busy.k0", nil); err != nil {
		t.Fatal(err)
	}
	for n := range strangers.MostOfSession + 3 {
		want := fmt.Sprintf("%sbusy.k%d.%s", own, n%(strangers.MostOfSession+2), schemas.FromInside)
		if n == strangers.MostOfSession || n == strangers.MostOfSession+1 {
			want = own + "heartbeat." + schemas.FromInside
		}
		if got, err := heard.NextMsg(long); err != nil || got.Subject != want {
			t.Fatalf("message %d is %+v (%v), want %s", n, got, err, want)
		}
	}
	if err := nc.Publish(own+"input", make([]byte, schemas.MaxUncredentialed+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a large message gives %v, and %s", err, next(t, errs))
	}
}

// A tenant whose sessions have stored all that they may takes no room from another.
func TestTenantsHaveBounds(t *testing.T) {
	var d Door
	stored := func(n schemas.Name, key int) bool {
		subject := schemas.Marked(schemas.ActivitySubject(n, schemas.KindBusy, fmt.Sprint("k", key)), schemas.FromInside)
		return d.stored(n, subject, nil, nil).Subject == subject
	}
	for session := range strangers.MostOfUser / strangers.MostOfSession {
		for key := range strangers.MostOfSession {
			if n := (schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", session))}); !stored(n, key) {
				t.Fatalf("subject %d of %s isn't stored", key, n)
			}
		}
	}
	if stored(schemas.Name{Tenant: "acme", Session: "more"}, 0) {
		t.Error("more is stored of a tenant than may be")
	}
	if !stored(me, 0) {
		t.Error("nothing is stored of another tenant")
	}
}

// While the worker has no server its door ends connections, and keeps nothing: programs connect again when it has one.
func TestDoorAway(t *testing.T) {
	port, _, ns := behind(t, "127.0.54.23")
	c, in, _ := raw(t, port)
	fmt.Fprint(c, "PING\r\n")
	if line, err := in.ReadString('\n'); err != nil || line != "PONG\r\n" {
		t.Fatalf("it answers %q (%v)", line, err)
	}
	ns.Shutdown()
	ns.WaitForShutdown()
	for {
		fmt.Fprint(c, "PUB diapause.v1.activity.default.work.input 0\r\n\r\n")
		line, err := in.ReadString('\n')
		if line == "+OK\r\n" { // the worker hasn't noticed yet
			continue
		}
		if err != nil || !strings.Contains(line, string(errAway)) {
			t.Errorf("it answers %q (%v)", line, err)
		}
		break
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(port, "nats://")); err == nil {
		defer c.Close()
		if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && strings.HasPrefix(line, "INFO") {
			t.Errorf("another connection is answered %q", line)
		}
	}
}

// Who says nothing of how it connects hears what becomes of each line, as of a server.
func TestDoorVerbose(t *testing.T) {
	port, _, _ := behind(t, "127.0.54.24")
	c, in, info := raw(t, port)
	if info["max_payload"] != float64(schemas.MaxUncredentialed) || info["headers"] != true {
		t.Errorf("INFO is %v", info)
	}
	for _, said := range []struct{ text, want string }{
		{"CONNECT {}\r\n", "+OK"}, {"PUB diapause.v1.activity.default.work.input 1\r\nx\r\n", "+OK"}, {"UNSUB 1\r\n", "+OK"}, {"PING\r\n", "PONG"},
		{"HPUB diapause.v1.activity.default.work.input 20 2\r\nxx\r\n", "-ERR 'Parser Error'"},
	} {
		fmt.Fprint(c, said.text)
		if line, err := in.ReadString('\n'); err != nil || strings.TrimSpace(line) != said.want {
			t.Errorf("%q is answered %q (%v), want %q", said.text, line, err, said.want)
		}
	}
}
