package protocol_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/worker"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 30 * time.Second

// tester is what *testing.T and *rapid.T have in common here.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// host is one machine's worth of Diapause, in one process: what lasts (the
// server, the store, the fake's sessions), and what can be ended and started again.
type host struct {
	t       tester
	ctx     context.Context
	names   stream.Names
	options server.Options
	server  *server.Server
	disk    objectstore.Store
	images  objectstore.Store // the disk, or something around it
	fake    *fake.Driver
	driver  driver.Driver      // the fake, or something around it
	rules   scheduler.Policies // what is built in if nil
	key     *age.X25519Identity
	signer  ed25519.PrivateKey
	log     *slog.Logger

	nc      *nats.Conn // of the parts
	client  *nats.Conn
	js      jetstream.JetStream
	records *statekv.Store
	worker  part
	sched   part
	api     part
}

// part is one running part; the zero part isn't running.
type part struct {
	cancel context.CancelFunc
	done   chan error
}

func newHost(t tester, dirs func() string) *host {
	t.Helper()
	h := &host{t: t, ctx: context.Background(), names: stream.NamesWith(""), fake: fake.New(), log: slog.New(slog.DiscardHandler)}
	h.driver = h.fake
	h.options = server.Options{JetStream: true, StoreDir: dirs(), Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true}
	h.serve()
	var err error
	h.nc, h.client = h.connect(), h.connect()
	h.js, err = jetstream.New(h.nc)
	h.must(err)
	h.must(stream.Ensure(h.ctx, h.js, h.names, 1))
	h.records, err = statekv.Open(h.ctx, h.js, h.names)
	h.must(err)
	h.records.Attempt, h.records.Retry = time.Second, 50*time.Millisecond
	h.disk, err = dir.Open(dirs())
	h.must(err)
	h.images = h.disk
	h.key, err = age.GenerateX25519Identity()
	h.must(err)
	_, h.signer, err = ed25519.GenerateKey(nil)
	h.must(err)
	return h
}

// start is a host for an ordinary test, with all parts running.
func start(t *testing.T) *host {
	t.Helper()
	h := newHost(t, t.TempDir)
	t.Cleanup(h.close)
	h.log = slog.New(slog.NewTextHandler(logTo{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.beginAll()
	return h
}

type logTo struct{ t *testing.T }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// serve runs the NATS server, at the same address as before if there was one.
func (h *host) serve() {
	h.t.Helper()
	o := h.options
	s, err := server.NewServer(&o)
	h.must(err)
	s.Start()
	if !s.ReadyForConnections(limit) {
		h.t.Fatal("the NATS server doesn't start")
	}
	_, port, err := net.SplitHostPort(s.Addr().String())
	h.must(err)
	h.options.Port, err = strconv.Atoi(port)
	h.must(err)
	h.server = s
}

func (h *host) connect() *nats.Conn {
	h.t.Helper()
	nc, err := nats.Connect(h.server.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	h.must(err)
	return nc
}

func (h *host) close() {
	h.api.end(h.t)
	h.sched.end(h.t)
	h.worker.end(h.t)
	h.nc.Close()
	h.client.Close()
	h.server.Shutdown()
	h.server.WaitForShutdown()
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// begin runs a part.
func (p *part) begin(t tester, serve func(context.Context) error, ready <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan error, 1)
	go func() { p.done <- serve(ctx) }()
	select {
	case <-ready:
	case err := <-p.done:
		p.cancel = nil
		cancel()
		t.Fatalf("a part ended: %v", err)
	case <-time.After(limit):
		t.Fatal("a part isn't ready")
	}
}

// end ends it at any moment.
func (p *part) end(t tester) {
	t.Helper()
	if p.cancel == nil {
		return
	}
	p.cancel()
	p.cancel = nil
	select {
	case err := <-p.done:
		if err != nil {
			t.Errorf("a part ended with %v", err)
		}
	case <-time.After(limit):
		t.Fatal("a part doesn't end")
	}
}

func (h *host) identities() []age.Identity { return []age.Identity{h.key} }

func (h *host) trusted(string, string) []ed25519.PublicKey {
	return []ed25519.PublicKey{h.signer.Public().(ed25519.PublicKey)}
}

func (h *host) beginWorker() {
	h.t.Helper()
	w := worker.New(worker.Options{
		Host: "h", NC: h.nc, JS: h.js, Names: h.names, Records: h.records, Images: h.images,
		Drivers: map[schemas.DriverName]driver.Driver{"fake": h.driver}, Identities: []age.Identity{h.key},
		Recipients: []age.Recipient{h.key.Recipient()}, Signer: h.signer, Trusted: h.trusted, Log: h.log,
		Observe: 100 * time.Millisecond, Sweep: 200 * time.Millisecond,
	})
	h.worker.begin(h.t, w.Serve, w.Ready())
}

// beginServices runs the scheduler and the API, which asks it.
func (h *host) beginServices() {
	h.t.Helper()
	s := scheduler.New(scheduler.Options{JS: h.js, Names: h.names, Records: h.records, Log: h.log, Actor: "scheduler", Policies: h.rules})
	a := api.New(api.Options{
		NC: h.nc, JS: h.js, Names: h.names, Records: h.records, Images: h.images, Scheduler: s,
		Recipients: []age.Recipient{h.key.Recipient()}, Trusted: h.trusted, Host: "h", Version: "0.0.1", Log: h.log,
	})
	h.sched.begin(h.t, s.Serve, s.Ready())
	h.api.begin(h.t, a.Serve, a.Ready())
}

func (h *host) beginAll() {
	h.t.Helper()
	h.beginWorker()
	h.beginServices()
}

// ask sends a request as a client does.
func (h *host) ask(verb string, req schemas.Request, out any) error {
	if req.Wait == 0 {
		req.Wait = schemas.Duration(limit)
	}
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(h.ctx, time.Duration(req.Wait)+5*time.Second)
	defer cancel()
	msg, err := h.client.RequestWithContext(ctx, schemas.SubjectAPI+"."+verb, data)
	if err != nil {
		return err
	}
	return events.ReadAnswer(msg, out)
}

// do asks for a verb that has to work.
func (h *host) do(verb string, req schemas.Request) schemas.View {
	h.t.Helper()
	var v schemas.View
	if err := h.ask(verb, req, &v); err != nil {
		h.t.Fatalf("%s %s: %v", verb, req.Name, err)
	}
	return v
}

// code gives the code that a verb is answered with: "" if it works.
func code(err error) string {
	var e *schemas.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return "no answer: " + err.Error()
}

func runRequest(name string, command ...string) schemas.Request {
	spec, err := json.Marshal(schemas.Spec{Command: command})
	if err != nil {
		panic(err) // of strings: it can't be
	}
	return schemas.Request{Name: name, Run: &schemas.RunRequest{Program: command[0], Spec: spec}}
}

func (h *host) run(name string) schemas.View {
	h.t.Helper()
	v := h.do("run", runRequest(name, "count"))
	h.count(v.UID)
	return v
}

// count waits until the session runs on its host, and lets it count one.
func (h *host) count(uid schemas.UID) int {
	h.t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if n, ok := h.fake.Count(uid); ok {
			return n
		}
	}
	h.t.Fatalf("session with uid %s doesn't run", uid)
	return 0
}

func (h *host) get(name string) statekv.Versioned {
	h.t.Helper()
	n, err := schemas.ParseName(name)
	h.must(err)
	v, err := h.records.Get(h.ctx, n)
	h.must(err)
	return v
}

// until waits for a record to be as wanted.
func (h *host) until(name, what string, ok func(statekv.Versioned) bool) statekv.Versioned {
	h.t.Helper()
	var v statekv.Versioned
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if v = h.get(name); ok(v) {
			return v
		}
	}
	h.t.Fatalf("session %s is %s after %s (%s), not %s", name, v.State, v.Transition.Type, v.Transition.Reason, what)
	return v
}

// audited checks that the log gives every record back.
func (h *host) audited() {
	h.t.Helper()
	var a api.Audit
	h.must(h.ask("audit", schemas.Request{}, &a))
	if len(a.Problems) > 0 {
		h.t.Errorf("the audit finds %v", a.Problems)
	}
}
