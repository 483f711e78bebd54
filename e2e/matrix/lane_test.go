package matrix

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake/guard"
	"github.com/diapause/diapause/workers/worker"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 60 * time.Second

// The parts of a lane, by the first word of their failpoints.
const (
	partWorker    = "worker"
	partScheduler = "scheduler"
	partAPI       = "api"
)

// lane is one machine: what lasts, and the processes on it. Cases run on it one
// after the other.
type lane struct {
	t       *testing.T
	ctx     context.Context
	names   stream.Names
	options server.Options
	server  *server.Server
	disk    objectstore.Store
	guard   *guard.Guard
	key     *age.X25519Identity
	signer  ed25519.PrivateKey
	points  *failpoint.Set
	logged  *tail

	client  *nats.Conn
	js      jetstream.JetStream
	records *statekv.Store

	mu    sync.Mutex
	parts map[string]*life
}

// tail keeps what was logged last, of one case.
type tail struct {
	mu  sync.Mutex
	all []string
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(p)))
	return len(p), nil
}

func (l *tail) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := strings.Join(l.all, "\n")
	l.all = nil
	return out
}

func newLane(t *testing.T) *lane {
	t.Helper()
	l := &lane{
		t: t, ctx: context.Background(), names: stream.NamesWith(""), points: failpoint.New(), logged: &tail{}, parts: map[string]*life{},
	}
	l.guard = l.watched()
	l.options = server.Options{JetStream: true, StoreDir: t.TempDir(), Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true}
	l.serve()
	l.client = l.connect()
	l.furnish()
	l.beginAll()
	t.Cleanup(l.close)
	return l
}

// furnish makes what lasts besides the server that the client is connected to.
func (l *lane) furnish() {
	l.t.Helper()
	var err error
	l.js, err = jetstream.New(l.client)
	l.must(err)
	l.must(stream.Ensure(l.ctx, l.js, l.names, 1))
	l.records = l.open(l.js)
	l.disk, err = dir.Open(l.t.TempDir())
	l.must(err)
	l.key, err = age.GenerateX25519Identity()
	l.must(err)
	_, l.signer, err = ed25519.GenerateKey(nil)
	l.must(err)
}

func (l *lane) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lane) open(js jetstream.JetStream) *statekv.Store {
	l.t.Helper()
	s, err := statekv.Open(l.ctx, js, l.names)
	l.must(err)
	s.Attempt, s.Retry = 2*time.Second, 20*time.Millisecond
	return s
}

// serve runs the NATS server, at the same address as before if there was one.
func (l *lane) serve() {
	l.t.Helper()
	o := l.options
	s, err := server.NewServer(&o)
	l.must(err)
	s.Start()
	if !s.ReadyForConnections(limit) {
		l.t.Fatal("the NATS server doesn't start")
	}
	_, port, err := net.SplitHostPort(s.Addr().String())
	l.must(err)
	l.options.Port, err = strconv.Atoi(port)
	l.must(err)
	l.server = s
}

// restart ends the NATS server, and begins it again where it was.
func (l *lane) restart() {
	l.t.Helper()
	l.server.Shutdown()
	l.server.WaitForShutdown()
	l.serve()
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if l.client.FlushTimeout(time.Second) == nil {
			if _, err := l.js.Stream(l.ctx, l.names.SessionStream()); err == nil {
				return
			}
		}
		if time.Now().After(deadline) {
			l.t.Fatal("the connection doesn't come back")
		}
	}
}

func (l *lane) connect() *nats.Conn {
	l.t.Helper()
	nc, err := nats.Connect(l.server.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	l.must(err)
	return nc
}

func (l *lane) close() {
	for _, p := range []string{partAPI, partScheduler, partWorker} {
		l.parts[p].stop()
		l.bury(p)
		l.parts[p].nc.Close()
	}
	l.client.Close()
	l.server.Shutdown()
	l.server.WaitForShutdown()
}

func (l *lane) identities() []age.Identity { return []age.Identity{l.key} }

func (l *lane) trusted(string, string) []ed25519.PublicKey {
	return []ed25519.PublicKey{l.signer.Public().(ed25519.PublicKey)}
}

func (l *lane) log(part string) *slog.Logger {
	return slog.New(slog.NewTextHandler(l.logged, &slog.HandlerOptions{Level: slog.LevelDebug})).With("part", part)
}

// begin runs a part as a process of its own.
func (l *lane) begin(part string, build func(p *life, js jetstream.JetStream) (serve func(context.Context) error, ready <-chan struct{})) {
	l.t.Helper()
	p := &life{nc: l.connect(), ended: make(chan error, 1)}
	p.ctx, p.kill = context.WithCancel(context.Background())
	js, err := jetstream.New(p.nc)
	l.must(err)
	serve, ready := build(p, js)
	ctx, stop := context.WithCancel(p.ctx)
	p.stop = stop
	go func() { p.ended <- serve(ctx) }()
	select {
	case <-ready:
	case err := <-p.ended:
		l.t.Fatalf("the %s ended: %v\n%s", part, err, l.logged.take())
	case <-time.After(limit):
		l.t.Fatalf("the %s isn't ready\n%s", part, l.logged.take())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts[part] = p
}

// die ends the processes of the given parts at this instant.
func (l *lane) die(parts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		l.parts[p].die()
	}
}

// bury waits until nothing is left of processes that were told to end, or killed.
func (l *lane) bury(parts ...string) {
	l.t.Helper()
	for _, p := range parts {
		select {
		case <-l.parts[p].ended:
		case <-time.After(limit):
			var stacks bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
			l.t.Fatalf("the %s doesn't end\n%s\n%s", p, l.logged.take(), &stacks)
		}
	}
}

func (l *lane) beginAll() {
	l.t.Helper()
	l.beginPart(partWorker)
	l.beginPart(partScheduler)
	l.beginPart(partAPI)
}

func (l *lane) beginPart(part string) {
	l.t.Helper()
	switch part {
	case partWorker:
		l.beginWorker()
	case partScheduler:
		l.beginScheduler()
	case partAPI:
		l.beginAPI()
	}
}

func (l *lane) beginWorker() {
	l.t.Helper()
	l.begin(partWorker, func(p *life, js jetstream.JetStream) (func(context.Context) error, <-chan struct{}) {
		w := worker.New(worker.Options{
			Host: "h", NC: p.nc, JS: js, Names: l.names, Records: records{l.open(js), p}, Images: goods{l.disk, p},
			Drivers: map[schemas.DriverName]driver.Driver{"fake": hands{l.guard, p}}, Identities: l.identities(),
			Recipients: []age.Recipient{l.key.Recipient()}, Signer: l.signer, Trusted: l.trusted, Log: l.log(partWorker),
			Observe: time.Hour, Sweep: 300 * time.Millisecond, Failpoints: l.points,
		})
		return w.Serve, w.Ready()
	})
}

func (l *lane) beginScheduler() {
	l.t.Helper()
	l.begin(partScheduler, func(p *life, js jetstream.JetStream) (func(context.Context) error, <-chan struct{}) {
		s := scheduler.New(scheduler.Options{
			JS: js, Names: l.names, Records: records{l.open(js), p}, Log: l.log(partScheduler), Actor: "scheduler", Failpoints: l.points,
		})
		return s.Serve, s.Ready()
	})
}

func (l *lane) beginAPI() {
	l.t.Helper()
	l.begin(partAPI, func(p *life, js jetstream.JetStream) (func(context.Context) error, <-chan struct{}) {
		a := api.New(api.Options{
			NC: p.nc, JS: js, Names: l.names, Records: l.open(js), Images: goods{l.disk, p}, Scheduler: noScheduler{},
			Recipients: []age.Recipient{l.key.Recipient()}, Trusted: l.trusted, Host: "h", Version: "0.0.1", Log: l.log(partAPI), Failpoints: l.points,
		})
		return a.Serve, a.Ready()
	})
}

// no one is asked why: the scheduler may be gone.
type noScheduler struct{}

func (noScheduler) Explain(context.Context, schemas.Name) (schemas.Explanation, bool, error) {
	return schemas.Explanation{}, false, nil
}
func (noScheduler) Idle(context.Context) (map[schemas.Name]time.Duration, error) { return nil, nil }

// ask sends a request as a client does.
func (l *lane) ask(ctx context.Context, verb string, req schemas.Request, out any) error {
	req.Wait = schemas.Duration(limit)
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	msg, err := l.client.RequestWithContext(ctx, schemas.SubjectAPI+"."+verb, data)
	if err != nil {
		return err
	}
	return events.ReadAnswer(msg, out)
}

// do asks for a verb that has to work. The API may not be back yet, and what was
// under way may make it refuse, for a moment.
func (l *lane) do(verb string, req schemas.Request) error {
	var err error
	refusals := 0
	for end := time.Now().Add(limit); time.Now().Before(end) && refusals < 20; time.Sleep(10 * time.Millisecond) {
		var out any
		if err = l.ask(l.ctx, verb, req, &out); err == nil {
			return nil
		}
		var refused *schemas.APIError
		if errors.As(err, &refused) {
			refusals++
		}
		if refused != nil && refused.Code == schemas.CodeNoSession {
			break
		}
	}
	return fmt.Errorf("%s %s: %w", verb, req.Name, err)
}

func runRequest(name string) schemas.Request {
	spec, err := json.Marshal(schemas.Spec{Command: []string{"count"}})
	if err != nil {
		panic(err) // of strings: it can't be
	}
	return schemas.Request{Name: name, Run: &schemas.RunRequest{Program: "count", Spec: spec, Idle: &schemas.Idle{Never: true}}}
}
