package permissions

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
	"github.com/diapause/diapause/services/janitor"
	keyring "github.com/diapause/diapause/services/keys"
	"github.com/diapause/diapause/services/run"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/worker"
)

// parts is a fleet whose parts run, each as its own user.
type parts struct {
	fleet
	names  stream.Names
	images objectstore.Store
	fake   *fake.Driver
	log    *slog.Logger

	mu      sync.Mutex
	refused []error
}

// as opens JetStream as a user; what the server refuses fails the test.
func (w *parts) as(user string) (*nats.Conn, jetstream.JetStream, *statekv.Store) {
	w.t.Helper()
	nc := w.connect(user, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, errors.New(user+": "+err.Error()))
		}
	}))
	js, err := jetstream.New(nc)
	w.must(err)
	records, err := statekv.Open(w.t.Context(), js, w.names)
	w.must(err)
	return nc, js, records
}

// keeper is the ring of keys as the parts have it.
func (w *parts) keeper(js jetstream.JetStream, records *statekv.Store, host schemas.HostID, own *age.X25519Identity, signer ed25519.PrivateKey) *keyring.Keeper {
	w.t.Helper()
	store, err := keykv.Open(w.t.Context(), js, w.names)
	w.must(err)
	if own != nil {
		w.must(keyring.Register(w.t.Context(), store, keyring.Registration{
			Host: host, Signing: signer.Public().(ed25519.PublicKey), Recipient: own.Recipient().String(),
		}))
	}
	ring := keyring.NewRing(store)
	_, err = ring.Refresh(w.t.Context(), "")
	w.must(err)
	return keyring.NewKeeper(keyring.Options{Ring: ring, Records: records, Images: w.images, Host: host, Log: w.log})
}

func (w *parts) worker() (serve []func(context.Context) error, ready <-chan struct{}) {
	nc, js, records := w.as("worker-h1")
	own, err := age.GenerateX25519Identity()
	w.must(err)
	_, signer, err := ed25519.GenerateKey(nil)
	w.must(err)
	leases, err := lease.Open(w.t.Context(), js, w.names)
	w.must(err)
	keeper := w.keeper(js, records, "h1", own, signer)
	p := worker.New(worker.Options{
		Host: "h1", NC: nc, JS: js, Names: w.names, Records: records, Images: w.images,
		Drivers: map[schemas.DriverName]driver.Driver{"fake": w.fake}, Identities: []age.Identity{own}, Own: []age.Identity{own},
		Signer: signer, Trusted: keeper.Trusted, Keyring: keeper, Log: w.log,
		Lease: &lease.Holder{Store: leases, Host: "h1", Log: w.log, Term: 3 * time.Second},
	})
	return []func(context.Context) error{p.Serve, keeper.Ring.Serve, keeper.Serve}, p.Ready()
}

// process is what each process is told that the parts run in.
func (w *parts) process() (p run.Process, ready <-chan struct{}) {
	started := &readyNotice{said: make(chan struct{})}
	return run.Process{Version: "0.0.1", Out: started, Log: slog.New(slog.NewTextHandler(complaints{w}, nil))}, started.said
}

// control runs a scheduler as `diapause scheduler` does, and two APIs as `diapause api` does.
func (w *parts) control() (serve []func(context.Context) error, ready []<-chan struct{}) {
	deciding, decides := w.process()
	serve = append(serve, func(ctx context.Context) error {
		return run.Scheduler(ctx, run.SchedulerConfig{Process: deciding, NATS: run.NATS{URL: w.url, Creds: w.creds("scheduler")}, Name: "one"})
	})
	ready = append(ready, decides)
	for _, name := range []string{"front", "back"} {
		answering, answers := w.process()
		serve = append(serve, func(ctx context.Context) error {
			return run.API(ctx, run.APIConfig{
				Process: answering, NATS: run.NATS{URL: w.url, Creds: w.creds("api")}, Name: name, Store: "dir://" + filepath.Join(w.dir, "images"),
				Control: run.Control{Usage: time.Hour, Retention: janitor.Policy{Log: archive.Policy{Age: time.Nanosecond, Count: 1}}},
			})
		})
		ready = append(ready, answers)
	}
	return serve, ready
}

// readyNotice is closed when a process says that it is ready.
type readyNotice struct {
	said chan struct{}
	once sync.Once
}

func (r *readyNotice) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "ready: ") {
		r.once.Do(func() { close(r.said) })
	}
	return len(p), nil
}

// complaints has what a process logs as refused fail the test.
type complaints struct{ w *parts }

func (c complaints) Write(p []byte) (int, error) {
	if strings.Contains(strings.ToLower(string(p)), "permissions violation") {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.w.refused = append(c.w.refused, errors.New(strings.TrimSpace(string(p))))
	}
	return logTo{c.w.t}.Write(p)
}

// run runs parts until the test ends.
func (w *parts) run(serve []func(context.Context) error, ready ...<-chan struct{}) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range serve {
		g.Go(func() error { return part(ctx) })
	}
	w.t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			w.t.Errorf("a part ended with %v", err)
		}
	})
	for _, r := range ready {
		select {
		case <-r:
		case <-ctx.Done():
			w.t.Fatalf("a part ended: %v", g.Wait())
		case <-time.After(patience):
			w.t.Fatal("a part isn't ready")
		}
	}
}

type logTo struct{ t *testing.T }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// runParts runs a worker, a scheduler and the API.
func runParts(t *testing.T, f fleet) *parts {
	t.Helper()
	w := &parts{fleet: f, names: stream.NamesWith(""), fake: fake.New(), log: slog.New(slog.NewTextHandler(logTo{t}, nil))}
	var err error
	w.images, err = dir.Open(filepath.Join(w.dir, "images"))
	w.must(err)
	serve, ready := w.worker()
	w.run(serve, ready)
	control, started := w.control()
	w.run(control, started...)
	return w
}

// A session's whole life, every part being a user that may do no more than it needs.
func TestPartsHaveWhatTheyNeed(t *testing.T) {
	w := runParts(t, newFleet(t))

	reader, states, told := w.client("reader"), make(chan schemas.State, 1000), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		told <- reader.Watch(ctx, "acme/*", func(r schemas.SessionRecord) { states <- r.State })
	}()
	s, err := w.client("client").Session("acme/web")
	w.must(err)
	spec, err := json.Marshal(schemas.Spec{Command: []string{"count"}})
	w.must(err)
	w.ask("run", schemas.Request{Name: "acme/web", Run: &schemas.RunRequest{Driver: "fake", Program: "count", Spec: spec, Idle: &schemas.Idle{Grace: time.Second.Milliseconds()}}})
	w.is(s, schemas.Suspended) // idle

	// A publisher of the tenant wakes it and keeps it.
	said, err := w.client("publisher-acme").Session("acme/web")
	w.must(err)
	hold, err := said.Hold(t.Context(), "me", 0)
	w.must(err)
	said.Input(events.Because("a person types"))
	w.is(s, schemas.Running)
	w.until(s, func(e schemas.Explanation) bool { return strings.Contains(what(e), "hold.me") })
	_, err = s.Suspend(t.Context(), "asked for")
	w.must(err)
	w.is(s, schemas.Suspended)
	_, err = s.Ensure(t.Context())
	w.must(err)
	_, err = s.Checkpoint(t.Context(), "", "")
	w.must(err)
	w.countsBadSubjects()
	w.movesTheLog(s.Name())
	err = w.client("client").API().Ask(t.Context(), "verify", schemas.Request{Name: "acme/web"}, &schemas.Verified{})
	if e := new(schemas.APIError); !errors.As(err, &e) || e.Reason != schemas.ReasonKey || e.Hint == "" {
		t.Errorf("verify by an API without a key: %v", err)
	}
	w.must(hold.Close())
	w.ask("rm", schemas.Request{Name: "acme/web"})
	await(t, states, schemas.Deleted)
	cancel()
	w.must(<-told)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.refused {
		t.Error(err)
	}
}

// countsBadSubjects waits until an API has counted what no stream takes, which it hears beside
// its streams.
func (w *parts) countsBadSubjects() {
	w.t.Helper()
	publisher := w.connect("publisher")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		w.must(publisher.Publish(schemas.SubjectActivity+".acme.web", nil))
		var s schemas.Stats
		if w.must(json.Unmarshal(w.ask("stats", schemas.Request{}), &s)); s.Intake.BadSubject > 0 {
			return
		}
	}
	w.t.Error("activity on a subject that is too short isn't counted")
}

// movesTheLog has APIs move old revisions of a session to the store, with the keys that nats-config wrote beside their
// credentials, and looks whether history goes back to the first, whichever of them is asked.
func (w *parts) movesTheLog(name string) {
	w.t.Helper()
	var before, after []json.RawMessage
	w.must(json.Unmarshal(w.ask("history", schemas.Request{Name: name}), &before))
	var pruned schemas.StorePrune
	w.must(json.Unmarshal(w.ask("store_prune", schemas.Request{}), &pruned))
	if pruned.Log == nil || pruned.Log.Moved == 0 || len(pruned.Problems) > 0 {
		w.t.Fatalf("of the log was moved %+v: %q", pruned.Log, pruned.Problems)
	}
	for range 8 {
		w.must(json.Unmarshal(w.ask("history", schemas.Request{Name: name}), &after))
		if len(after) < len(before) || string(after[0]) != string(before[0]) {
			w.t.Fatalf("of %d entries of the history are left %d, the first %s", len(before), len(after), after[0])
		}
	}
}

func what(e schemas.Explanation) (all string) {
	for _, b := range e.Blockers {
		all += b.What + " "
	}
	return all
}

func (w *parts) client(user string) *events.Client {
	w.t.Helper()
	c, err := events.Connect(events.Options{URL: w.url, Creds: w.creds(user), By: user, OnError: func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, errors.New(user+": "+err.Error()))
	}})
	w.must(err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask asks as a person at the command line does.
func (w *parts) ask(verb string, req schemas.Request) json.RawMessage {
	w.t.Helper()
	var out json.RawMessage
	if err := w.client("client").API().Ask(w.t.Context(), verb, req, &out); err != nil {
		w.t.Fatalf("%s: %v", verb, err)
	}
	return out
}

// is waits for a state.
func (w *parts) is(s events.Session, want schemas.State) {
	w.t.Helper()
	var v schemas.View
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if v, err = s.Show(w.t.Context()); err == nil && v.State == want && v.Op == "" {
			return
		}
	}
	w.t.Fatalf("the session is %s, not %s", v.State, want)
}

func (w *parts) until(s events.Session, ok func(schemas.Explanation) bool) {
	w.t.Helper()
	var e schemas.Explanation
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if w.must(json.Unmarshal(w.ask("explain", schemas.Request{Name: s.Name()}), &e)); ok(e) {
			return
		}
	}
	w.t.Fatalf("it isn't as it should be: %+v", e)
}

func await(t *testing.T, states <-chan schemas.State, want schemas.State) {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case s := <-states:
			if s == want {
				return
			}
		case <-limit:
			t.Fatalf("the session doesn't come to be %s", want)
		}
	}
}
