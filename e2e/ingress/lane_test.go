package ingress

import (
	"context"
	"crypto/ed25519"
	encoding "encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	published "github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	door "github.com/diapause/diapause/services/ingress"
	"github.com/diapause/diapause/services/ingress/client"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/worker"
)

// lane is all of Diapause in this process, as `up` has it, but for the processes of sessions, which are pretended.
type lane struct {
	t       *testing.T
	api     *published.API
	records *statekv.Store
	url     string // of the ingress
	client  *http.Client
}

// reached is the fake driver with a server in each session. Its connections end with the processes, as real ones do.
type reached struct {
	*fake.Driver
	server string

	mu    sync.Mutex
	conns map[schemas.UID][]net.Conn
}

// Dial implements driver.Dialer.
func (d *reached) Dial(ctx context.Context, uid schemas.UID) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i, err := d.Inspect(ctx, uid); err != nil || i.State != driver.Running {
		return nil, driver.ErrNotHere
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		if _, err := attach.ReadRequest(theirs); err != nil {
			return
		}
		plain, err := net.Dial("tcp", d.server)
		if err != nil {
			_ = attach.WriteRefused(theirs, err.Error())
			return
		}
		if _, err := fmt.Fprintf(plain, "%s\n", uid); err == nil {
			_ = attach.ServeForward(theirs, plain, func() bool { return true })
		}
	}()
	d.conns[uid] = append(d.conns[uid], theirs)
	return ours, nil
}

// Stop implements driver.Driver.
func (d *reached) Stop(ctx context.Context, f driver.Fence) error {
	err := d.Driver.Stop(ctx, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns[f.UID] {
		c.Close()
	}
	delete(d.conns, f.UID)
	return err
}

// patient are budgets that a busy machine keeps.
var patient = door.Budgets{Wake: limit, Connect: limit, FirstByte: limit, Page: limit}

// named is a listener whose connections begin with the uid of the session that they lead into.
type named struct{ net.Listener }

type namedConn struct {
	net.Conn
	uid string
}

func (l named) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var uid []byte
	for b := []byte{0}; b[0] != '\n'; uid = append(uid, b[0]) {
		if _, err := c.Read(b); err != nil {
			break // the request that follows can't be read, either
		}
	}
	return namedConn{c, string(uid[:max(0, len(uid)-1)])}, nil
}

type uidKey struct{}

// backend is the server in all sessions. It says which one a request came to, and what it asked for.
func backend(t *testing.T) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Context().Value(uidKey{}), r.URL.Path)
	}))
	s.Listener = named{s.Listener}
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, uidKey{}, c.(namedConn).uid)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// newLane starts one.
func newLane(t *testing.T) *lane {
	t.Helper()
	at := natstest.Serve(t)
	js := natstest.Connect(t, at.ClientURL())
	names := stream.NamesWith("")
	check(t, stream.Ensure(t.Context(), js, names, 1))
	records, err := statekv.Open(t.Context(), js, names)
	check(t, err)
	disk, err := dir.Open(t.TempDir())
	check(t, err)
	key, err := age.GenerateX25519Identity()
	check(t, err)
	public, signer, err := ed25519.GenerateKey(nil)
	check(t, err)
	trusted := func(string, string) []ed25519.PublicKey { return []ed25519.PublicKey{public} }
	identities := []age.Identity{key}
	log := slog.New(slog.DiscardHandler)

	d := &reached{Driver: fake.New(), server: backend(t), conns: map[schemas.UID][]net.Conn{}}
	connect := func() (*nats.Conn, jetstream.JetStream) {
		js := natstest.Connect(t, at.ClientURL())
		return js.Conn(), js
	}
	nc, wjs := connect()
	w := worker.New(worker.Options{
		Host: "h", NC: nc, JS: wjs, Names: names, Records: records, Images: disk, Drivers: map[schemas.DriverName]driver.Driver{"fake": d},
		Identities: identities, Recipients: []age.Recipient{key.Recipient()}, Signer: signer, Trusted: trusted, Log: log, Observe: time.Hour,
	})
	_, sjs := connect()
	s := scheduler.New(scheduler.Options{JS: sjs, Names: names, Records: records, Log: log, Actor: "scheduler"})
	nc, ajs := connect()
	a := api.New(api.Options{
		NC: nc, JS: ajs, Names: names, Records: records, Images: disk, Scheduler: s, Recipients: []age.Recipient{key.Recipient()}, Trusted: trusted,
		Host: "h", Version: "0.0.1", Log: log,
	})
	run(t, w.Serve, w.Ready())
	run(t, s.Serve, s.Ready())
	run(t, a.Serve, a.Ready())

	nc, _ = connect()
	sessions := client.On(nc, "")
	t.Cleanup(sessions.Close)
	p := door.New(door.Options{Authorizer: client.Loopback{Domain: door.DefaultDomain}, Waker: sessions, Leaser: sessions, Dialer: sessions, Log: log, Budgets: patient})
	t.Cleanup(p.Close)
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	return &lane{t: t, api: published.NewAPI(js.Conn(), published.Options{By: "test"}), records: records, url: front.URL, client: front.Client()}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run has a part serve until the test ends.
func run(t *testing.T, serve func(context.Context) error, ready <-chan struct{}) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(limit):
		t.Fatal("a part isn't ready")
	}
}

func (l *lane) ask(verb string, r schemas.Request, out any) error {
	ctx, cancel := context.WithTimeout(l.t.Context(), limit)
	defer cancel()
	r.Wait = schemas.Duration(limit)
	return l.api.Ask(ctx, verb, r, out)
}

// begin makes a session.
func (l *lane) begin(name string) (v schemas.View) {
	l.t.Helper()
	spec, err := encoding.Marshal(schemas.Spec{Command: []string{"serve"}})
	check(l.t, err)
	check(l.t, l.ask("run", schemas.Request{Name: name, Run: &schemas.RunRequest{Driver: "fake", Program: "serve", Spec: spec, Idle: &schemas.Idle{Never: true}}}, &v))
	return v
}
