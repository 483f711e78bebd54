package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/scheduler"
)

// queueLimit bounds each wait: it is only reached when something is broken.
const queueLimit = 2 * time.Minute

// yard is a fleet of hosts without processes: what a worker does is recorded at once.
type yard struct {
	*bench
	identity *age.X25519Identity

	mu     sync.Mutex
	starts map[schemas.UID]int     // how often each was started
	order  []schemas.SessionID     // in which they were
	stuck  map[schemas.HostID]bool // hosts that end no suspend
}

// never is the rule of a session that isn't evicted.
var never = &schemas.Idle{Never: true}

// anyone may ask for all.
var operator = Caller{Identity: "operator"}

func newYard(t *testing.T) *yard {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), queueLimit)
	t.Cleanup(cancel)
	y := &yard{bench: &bench{T: t, ctx: ctx}, starts: map[schemas.UID]int{}, stuck: map[schemas.HostID]bool{}}
	y.js = natstest.Streams(t)
	y.nc = y.js.Conn()
	var err error
	y.records, err = statekv.Open(ctx, y.js, stream.NamesWith(""))
	y.must(err)
	y.identity, err = age.GenerateX25519Identity()
	y.must(err)
	y.background(func(ctx context.Context) error {
		return y.records.Watch(ctx, func(v statekv.Versioned) { y.work(ctx, v) }, func() {})
	})
	return y
}

// background runs something until the test ends.
func (y *yard) background(serve func(context.Context) error) (stop func()) {
	ctx, end := context.WithCancel(y.ctx)
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	stop = sync.OnceFunc(func() {
		end()
		if err := <-done; err != nil && ctx.Err() == nil && !errors.Is(err, nats.ErrConnectionClosed) {
			y.Error(err)
		}
	})
	y.Cleanup(stop)
	return stop
}

// work does what a worker would.
func (y *yard) work(ctx context.Context, v statekv.Versioned) {
	if v.Op == nil || v.Host == "" || v.Op.Unplaced {
		return
	}
	t := schemas.Transition{Actor: "worker@" + string(v.Host), Op: v.Op.ID, Reason: "a test"}
	switch {
	case v.State == schemas.Starting:
		t.Type, t.Set = schemas.TStarted, schemas.Set{}
	case v.State == schemas.Suspending:
		y.mu.Lock()
		stuck := y.stuck[v.Host]
		y.mu.Unlock()
		if stuck {
			return
		}
		t.Type, t.Set = schemas.TSuspended, schemas.Set{Head: &schemas.Head{Name: "default/u/1-1"}}
	case v.State == schemas.Resuming:
		t.Type = schemas.TResumed
	case v.State == schemas.Running && v.Op.Kind == schemas.OpKill:
		t.Type, t.Set = schemas.TExited, schemas.Set{Exit: &schemas.Exit{}}
	case v.State == schemas.Deleted:
		t.Type = schemas.TRemoved
	default:
		return
	}
	_, err := y.records.Swap(ctx, v, t)
	if err != nil && ctx.Err() == nil && !errors.Is(err, statekv.ErrConflict) && !errors.Is(err, session.ErrIllegal) {
		y.Error(err)
	}
	if err == nil && t.Type == schemas.TStarted {
		y.mu.Lock()
		y.starts[v.UID]++
		y.order = append(y.order, v.Session)
		y.mu.Unlock()
	}
}

// host announces one.
func (y *yard) host(id schemas.HostID, slots int) {
	y.Helper()
	kv, err := y.js.KeyValue(y.ctx, stream.NamesWith("").Hosts())
	y.must(err)
	data, err := json.Marshal(schemas.Host{Host: id, Slots: slots, Fingerprints: []schemas.Fingerprint{{Driver: "criu"}}, Knows: schemas.Features(), Seen: time.Now()})
	y.must(err)
	_, err = kv.Put(y.ctx, string(id), data)
	y.must(err)
}

// office is the lead of a server that shares the queue with others.
func (y *yard) office(name string) Lead {
	y.Helper()
	store, err := lease.OpenOffice(y.ctx, y.js, stream.NamesWith(""), "queue")
	y.must(err)
	return &lease.Office{Store: store, Holder: schemas.HostID(name), Term: 2 * time.Second, Log: silence}
}

// idleLead has a scheduler stand by: what it does is what it is asked for.
type idleLead struct{}

func (idleLead) Serve(ctx context.Context, _ func(bool)) error {
	<-ctx.Done()
	return nil
}

// api runs a server, with a scheduler and a fleet of its own, until stop is called.
func (y *yard) api(name string, change ...func(*Options)) (s *Server, stop func()) {
	y.Helper()
	names := stream.NamesWith("")
	sched := scheduler.New(scheduler.Options{JS: y.js, Names: names, Records: y.records, Actor: "scheduler@" + name, Lead: idleLead{}})
	leases, err := lease.Open(y.ctx, y.js, names)
	y.must(err)
	hosts := fleet.New(fleet.Options{JS: y.js, Names: names, Records: y.records, Leases: leases, Actor: "fleet@" + name, Log: silence})
	o := Options{
		NC: y.nc, JS: y.js, Names: names, Records: y.records, Version: "1.0.0", Scheduler: sched, Fleet: hosts, Log: silence, Name: name,
		Recipients: []age.Recipient{y.identity.Recipient()}, QueueLead: y.office(name),
	}
	for _, c := range change {
		c(&o)
	}
	s = New(o)
	stops := []func(){y.background(s.Serve), y.background(sched.Serve), y.background(hosts.Serve)}
	for _, ready := range []<-chan struct{}{s.Ready(), sched.Ready()} {
		select {
		case <-ready:
		case <-y.ctx.Done():
			y.Fatal("a part doesn't get ready")
		}
	}
	return s, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// runs asks a server to run a session.
func (y *yard) runs(s *Server, name string, change ...func(*schemas.RunRequest)) (schemas.View, error) {
	y.Helper()
	r := &schemas.RunRequest{Driver: "criu", Program: "bash", TTY: true, Idle: never, Spec: []byte(`{"command":["bash"],"tty":true}`)}
	for _, c := range change {
		c(r)
	}
	out, err := s.Call(y.ctx, operator, "run", schemas.Request{Name: name, Run: r})
	if err != nil {
		return schemas.View{}, err
	}
	return out.(schemas.View), nil
}

// mustRun runs a session and gives how it is.
func (y *yard) mustRun(s *Server, name string, want schemas.State, change ...func(*schemas.RunRequest)) schemas.View {
	y.Helper()
	v, err := y.runs(s, name, change...)
	y.must(err)
	if v.State != want {
		y.Fatalf("session %s is %s, want %s (%+v)", name, v.State, want, v.Queue)
	}
	return v
}

// becomes waits until a server shows a session as ok says.
func (y *yard) becomes(s *Server, name, what string, ok func(schemas.View) bool) schemas.View {
	y.Helper()
	for {
		out, err := s.Call(y.ctx, operator, "show", schemas.Request{Name: name})
		if err == nil && ok(out.(schemas.View)) {
			return out.(schemas.View)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-y.ctx.Done():
			y.Fatalf("session %s is never %s: %+v, %v", name, what, out, err)
		}
	}
}

// waitFor waits for something.
func (y *yard) waitFor(what string, ok func() bool) {
	y.Helper()
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-y.ctx.Done():
			y.Fatalf("waited in vain for %s", what)
		}
	}
}

// fails is what goes wrong at a failpoint.
func fails(context.Context) error { return errors.New("a test has it fail") }

// silence is a log without a reader.
var silence = slog.New(slog.DiscardHandler)

func isRunning(v schemas.View) bool { return v.State == schemas.Running }

// standing waits until a server shows a session's place.
func (y *yard) standing(s *Server, name, want string) schemas.View {
	y.Helper()
	return y.becomes(s, name, "the "+want, func(v schemas.View) bool { return v.Queue != nil && v.Queue.Standing() == want })
}

func withoutTerminal(r *schemas.RunRequest) { r.TTY = false }
func noWait(r *schemas.RunRequest)          { r.NoWait = true }

// sound checks that so many were started, each once, and that the log gives all records back.
func (y *yard) sound(started int) {
	y.Helper()
	y.waitFor("the starts", func() bool { // each is counted after it is recorded
		y.mu.Lock()
		defer y.mu.Unlock()
		return len(y.starts) >= started
	})
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.starts) != started {
		y.Errorf("%d were started, want %d: %v", len(y.starts), started, y.order)
	}
	for uid, n := range y.starts {
		if n != 1 {
			y.Errorf("session %s was started %d times", uid, n)
		}
	}
	last := map[schemas.Name]schemas.SessionRecord{}
	y.must(y.records.Log(y.ctx, func(v statekv.Versioned) error {
		want, err := session.Apply(last[v.Name()], v.Transition)
		if err != nil || !sameRecord(want, v.SessionRecord) {
			y.Errorf("session %s, version %d: %v", v.Name(), v.Version, err)
		}
		last[v.Name()] = v.SessionRecord
		return nil
	}))
}
