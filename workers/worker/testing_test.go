package worker_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/worker"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 30 * time.Second

// bench is one host with the fake driver, its records and its store.
type bench struct {
	t       *testing.T
	ctx     context.Context
	name    schemas.Name // of the session
	nc      *nats.Conn
	js      jetstream.JetStream
	names   stream.Names
	records *statekv.Store
	publish stream.Publisher
	dir     *dir.Store
	images  *faultyStore
	fake    *fake.Driver
	key     *age.X25519Identity
	signer  ed25519.PrivateKey
	sweep   time.Duration
	needs   []schemas.Feature // of sessions
	stop    func()            // the worker; nil if none runs
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOn(t, startServer(t))
}

// benchOn is newBench with a server of the test's own.
func benchOn(t *testing.T, url string) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	t.Cleanup(cancel)
	b := &bench{
		t: t, ctx: ctx, name: schemas.Name{Tenant: "default", Session: "work"}, names: stream.NamesWith(""), fake: fake.New(), sweep: time.Hour,
	}
	var err error
	b.nc, err = nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	b.must(err)
	t.Cleanup(b.nc.Close)
	b.js, err = jetstream.New(b.nc)
	b.must(err)
	b.publish = stream.Publisher{JS: b.js}
	b.must(stream.Ensure(ctx, b.js, b.names, 1))
	b.records, err = statekv.Open(ctx, b.js, b.names)
	b.must(err)
	b.dir, err = dir.Open(t.TempDir())
	b.must(err)
	b.images = &faultyStore{Store: b.dir}
	b.key, err = age.GenerateX25519Identity()
	b.must(err)
	_, b.signer, err = ed25519.GenerateKey(nil)
	b.must(err)
	t.Cleanup(func() {
		if b.stop != nil {
			b.stop()
		}
	})
	return b
}

func startServer(t *testing.T) (url string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: t.TempDir(), Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(limit) {
		t.Fatal("the NATS server doesn't start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s.ClientURL()
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) options() worker.Options {
	return worker.Options{
		Host: "h", NC: b.nc, JS: b.js, Names: b.names, Records: b.records, Images: b.images,
		Drivers: map[schemas.DriverName]driver.Driver{"fake": b.fake}, Identities: []age.Identity{b.key},
		Recipients: []age.Recipient{b.key.Recipient()}, Signer: b.signer,
		Trusted: func(string, string) []ed25519.PublicKey {
			return []ed25519.PublicKey{b.signer.Public().(ed25519.PublicKey)}
		},
		Log: slog.New(slog.NewTextHandler(logTo{b.t}, &slog.HandlerOptions{Level: slog.LevelDebug})), Observe: time.Hour, Sweep: b.sweep,
	}
}

// logTo puts what the worker logs into the test's output.
type logTo struct{ t *testing.T }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// work runs a worker until the test ends, crash is called or another begins.
func (b *bench) work() {
	b.t.Helper()
	b.workWith(b.options())
}

func (b *bench) workWith(o worker.Options) {
	b.t.Helper()
	b.crash()
	w := worker.New(o)
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx) }()
	select {
	case <-w.Ready():
	case err := <-done:
		cancel()
		b.t.Fatalf("the worker ended: %v", err)
	case <-b.ctx.Done():
		cancel()
		b.t.Fatal("the worker isn't ready")
	}
	b.stop = func() {
		b.stop = nil
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("the worker ended with %v", err)
		}
	}
}

// crash stops the worker; what it had under way is left as it is.
func (b *bench) crash() {
	if b.stop != nil {
		b.stop()
	}
}

// change makes a transition as a client or the scheduler would.
func (b *bench) change(t schemas.Transition) statekv.Versioned {
	b.t.Helper()
	t.Actor = "test"
	v, err := b.records.Update(b.ctx, b.name, func(schemas.SessionRecord) (schemas.Transition, bool, error) { return t, true, nil })
	b.must(err)
	return v
}

func (b *bench) op(kind string) *schemas.Op {
	b.t.Helper()
	seq, err := stream.LastActivity(b.ctx, b.js, b.names)
	b.must(err)
	return &schemas.Op{ID: nuid.Next(), Kind: kind, Seq: seq}
}

// asked makes the record of a session that is to be started.
func (b *bench) asked(command ...string) statekv.Versioned {
	b.t.Helper()
	spec, err := json.Marshal(schemas.Spec{Command: command})
	b.must(err)
	sealed, err := seal.Seal(spec, b.key.Recipient())
	b.must(err)
	op, uid := b.op(schemas.OpStart), strings.ToLower(nuid.Next())
	return b.change(schemas.Transition{Type: schemas.TRun, Set: schemas.Set{Host: "h", Op: op, New: &schemas.NewSession{
		UID: schemas.UID(uid), Tenant: b.name.Tenant, Session: b.name.Session, Class: "web", Driver: "fake", Spec: sealed, Lineage: uid, Needs: b.needs, Born: op.Seq,
	}}})
}

// run starts a worker and a session.
func (b *bench) run() statekv.Versioned {
	b.t.Helper()
	b.work()
	b.asked("count")
	v := b.until("running", running)
	b.isOnHost(v.UID, driver.Running) // the record says so a moment earlier
	return v
}

func (b *bench) suspend(idle bool) statekv.Versioned {
	b.t.Helper()
	op := b.op(schemas.OpSuspend)
	op.Idle = idle
	return b.change(schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: op}})
}

func (b *bench) resume() statekv.Versioned {
	b.t.Helper()
	v, err := b.records.Get(b.ctx, b.name)
	b.must(err)
	op := b.op(schemas.OpResume)
	op.Source = v.Head
	return b.change(schemas.Transition{Type: schemas.TResume, Set: schemas.Set{Op: op}})
}

func (b *bench) say(k schemas.Kind, key string) {
	b.t.Helper()
	_, err := b.publish.Activity(b.ctx, b.name, k, key, schemas.Activity{})
	b.must(err)
}

// nowhere is a sink that keeps nothing.
type nowhere struct{}

func (nowhere) Add(_ image.Entry, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func begin(context.Context) error { return nil }

func running(v statekv.Versioned) bool   { return v.State == schemas.Running && v.Op == nil }
func suspended(v statekv.Versioned) bool { return v.State == schemas.Suspended && v.Op == nil }

func in(s schemas.State) func(statekv.Versioned) bool {
	return func(v statekv.Versioned) bool { return v.State == s }
}

func made(t schemas.TransitionType) func(statekv.Versioned) bool {
	return func(v statekv.Versioned) bool { return v.Transition.Type == t }
}

// until waits until the last revision of the record is as wanted.
func (b *bench) until(what string, ok func(statekv.Versioned) bool) statekv.Versioned {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, limit)
	defer stop()
	var got, last statekv.Versioned
	found := false
	err := b.records.Watch(ctx, func(v statekv.Versioned) {
		if found || v.Name() != b.name {
			return
		}
		if last = v; ok(v) {
			got, found = v, true
			stop()
		}
	}, func() {})
	b.must(err)
	if !found {
		b.t.Fatalf("the session is %s after %s (%s), not %s", last.State, last.Transition.Type, last.Transition.Reason, what)
	}
	return got
}

// log gives the types of the session's transitions, without the claims.
func (b *bench) log() string {
	b.t.Helper()
	all, err := b.records.History(b.ctx, b.name)
	b.must(err)
	var out []string
	for _, v := range all {
		if v.Transition.Type != schemas.TClaimed {
			out = append(out, string(v.Transition.Type))
		}
	}
	return strings.Join(out, " ")
}

// folded checks that the log gives every record back.
func (b *bench) folded() {
	b.t.Helper()
	all, err := b.records.History(b.ctx, b.name)
	b.must(err)
	var prev schemas.SessionRecord
	for _, v := range all {
		next, err := session.Apply(prev, v.Transition)
		b.must(err)
		want, _ := json.Marshal(next)
		if got, _ := json.Marshal(v.SessionRecord); string(got) != string(want) {
			b.t.Fatalf("version %d is\n%s\nits transition makes\n%s", v.Version, got, want)
		}
		prev = v.SessionRecord
	}
}

// state is how the host has the session: "" if it doesn't.
func (b *bench) state(uid schemas.UID) driver.State {
	b.t.Helper()
	return b.stateOn(b.fake, uid)
}

// stateOn is state, of another host's driver.
func (b *bench) stateOn(d *fake.Driver, uid schemas.UID) driver.State {
	b.t.Helper()
	i, err := d.Inspect(b.ctx, uid)
	if errors.Is(err, driver.ErrNotHere) {
		return ""
	}
	b.must(err)
	return i.State
}

func (b *bench) isOnHost(uid schemas.UID, want driver.State) {
	b.t.Helper()
	b.isOn(b.fake, uid, want)
}

func (b *bench) isOn(d *fake.Driver, uid schemas.UID, want driver.State) {
	b.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		got := b.stateOn(d, uid)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("on its host the session is %q, want %q", got, want)
		}
	}
}

func (b *bench) count(uid schemas.UID) int {
	b.t.Helper()
	return b.countOn(b.fake, uid)
}

// countOn is count, of another host's driver.
func (b *bench) countOn(d *fake.Driver, uid schemas.UID) int {
	b.t.Helper()
	b.isOn(d, uid, driver.Running) // the record says so a moment earlier
	n, ok := d.Count(uid)
	if !ok {
		b.t.Fatal("the session doesn't count")
	}
	return n
}

// objects lists the names in the store that begin with a prefix.
func (b *bench) objects(prefix string) (names []string) {
	b.t.Helper()
	b.must(b.dir.List(b.ctx, prefix, func(i objectstore.Info) error {
		names = append(names, i.Name)
		return nil
	}))
	return names
}

// pause makes the next call of a driver's method wait: entered is sent to when it
// has started, and goes on when release is closed.
func (b *bench) pause(method string) (entered <-chan struct{}, release chan<- struct{}) {
	in, out := make(chan struct{}, 1), make(chan struct{})
	b.fake.Script(method, fake.Step{Entered: in, Block: out})
	return in, out
}

func (b *bench) wait(ch <-chan struct{}) {
	b.t.Helper()
	select {
	case <-ch:
	case <-time.After(limit):
		b.t.Fatal("it doesn't come to that")
	}
}
