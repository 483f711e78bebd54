package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 30 * time.Second

// bench is a fleet of hosts that are there, and one session.
type bench struct {
	t     *testing.T
	fleet *Fleet
	name  schemas.Name
	fails atomic.Int32 // so many looks at an image fail
}

func newBench(t *testing.T, hosts ...schemas.HostID) *bench {
	t.Helper()
	js, names := natstest.Streams(t), stream.NamesWith("")
	b := &bench{t: t, name: schemas.Name{Tenant: "default", Session: "s"}}
	records, err := statekv.Open(t.Context(), js, names)
	b.must(err)
	leases, err := lease.Open(t.Context(), js, names)
	b.must(err)
	kv, err := js.KeyValue(t.Context(), names.Hosts())
	b.must(err)
	for _, id := range hosts {
		data, err := json.Marshal(plain(id, 0).Host)
		b.must(err)
		_, err = kv.Put(t.Context(), string(id), data)
		b.must(err)
	}
	b.fleet = New(Options{JS: js, Names: names, Records: records, Leases: leases, Orders: hostkv.NewCache(js, names, nil), Actor: "fleet@test"})
	b.fleet.pause = 40 * time.Millisecond
	b.fleet.header = func(context.Context, schemas.SessionRecord, schemas.Head) (schemas.ImageHeader, error) {
		if b.fails.Add(-1) >= 0 {
			return schemas.ImageHeader{}, errors.New("no answer")
		}
		return schemas.ImageHeader{Fingerprint: schemas.Fingerprint{Driver: "criu"}}, nil
	}
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// change makes transitions, one after the other.
func (b *bench) change(all ...schemas.Transition) (v statekv.Versioned) {
	b.t.Helper()
	for _, t := range all {
		t.Actor = "test"
		var err error
		v, err = b.fleet.Records.Update(b.t.Context(), b.name, func(schemas.SessionRecord) (schemas.Transition, bool, error) { return t, true, nil })
		b.must(err)
	}
	return v
}

// asleep makes a session that host a suspended.
func (b *bench) asleep() {
	b.t.Helper()
	b.change(
		schemas.Transition{Type: schemas.TRun, Set: schemas.Set{Host: "a", New: &schemas.NewSession{UID: "u", Tenant: b.name.Tenant, Session: b.name.Session}}},
		schemas.Transition{Type: schemas.TStarted},
		schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{Kind: schemas.OpSuspend}}},
		schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &schemas.Head{Name: "default/u/1-1"}}},
	)
}

func (b *bench) resume(unplaced bool, tried ...schemas.HostID) {
	b.t.Helper()
	op := schemas.NewOp(schemas.OpResume, 0, time.Now())
	op.Source, op.Unplaced, op.Tried = &schemas.Head{Name: "default/u/1-1"}, unplaced, tried
	b.change(schemas.Transition{Type: schemas.TResume, Set: schemas.Set{Op: op}})
}

// serve runs the fleet until the test ends.
func (b *bench) serve() {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.fleet.Serve(ctx); err != nil && ctx.Err() == nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(func() { stop(); running.Wait() })
}

func (b *bench) until(what string, ok func(statekv.Versioned) bool) statekv.Versioned {
	b.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		v, err := b.fleet.Records.Get(b.t.Context(), b.name)
		b.must(err)
		if ok(v) {
			return v
		}
		if time.Now().After(end) {
			b.t.Fatalf("it is never %s: %s on host %s, op %+v", what, v.State, v.Host, v.Op)
		}
	}
}

func placed(v statekv.Versioned) bool { return v.Op != nil && !v.Op.Unplaced }

// A resume that was recorded without a host while no fleet was there gets one, where it was if
// that may be, also if the first look fails.
func TestUnplacedIsPlaced(t *testing.T) {
	for name, c := range map[string]struct {
		closed, want schemas.HostID
		tried        []schemas.HostID
	}{
		"where it was":          {want: "a"},
		"its host is cordoned":  {closed: "a", want: "b"},
		"its host was tried":    {tried: []schemas.HostID{"a"}, want: "b"},
		"the other is cordoned": {closed: "b", want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "a", "b")
			b.asleep()
			b.resume(true, c.tried...)
			b.fails.Store(2)
			if c.closed != "" {
				_, err := b.fleet.Orders.Update(t.Context(), c.closed, func(o *schemas.HostOrder) (bool, error) { o.Cordoned = true; return true, nil })
				b.must(err)
			}
			b.serve()
			v := b.until("placed", placed)
			if v.Host != c.want || v.State != schemas.Resuming || v.Transition.Type != schemas.TMoved || v.Op.Source == nil {
				t.Errorf("%s on host %s by %s, op %+v", v.State, v.Host, v.Transition.Type, v.Op)
			}
		})
	}
}

// What no host can take is suspended again, with what each host lacks.
func TestUnplacedThatNoHostCanTake(t *testing.T) {
	b := newBench(t, "a")
	b.asleep()
	_, err := b.fleet.Orders.Update(t.Context(), "a", func(o *schemas.HostOrder) (bool, error) { o.Cordoned = true; return true, nil })
	b.must(err)
	b.serve()
	b.resume(true)
	v := b.until("suspended", func(v statekv.Versioned) bool { return v.State == schemas.Suspended })
	if f := v.Failure; f == nil || f.Op != schemas.OpResume || !strings.Contains(f.Text, "host a: it is cordoned") || f.Hint == "" {
		t.Errorf("the failure is %+v", f)
	}
}

// A resume that failed is tried elsewhere, also if the first look at its image fails.
func TestFailedLookIsTriedAgain(t *testing.T) {
	b := newBench(t, "a", "b")
	b.asleep()
	b.resume(false)
	b.serve()
	for end := time.Now().Add(limit); len(known(b.fleet)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the fleet doesn't hear of the resume")
		}
	}
	b.fails.Store(2)
	b.change(schemas.Transition{Type: schemas.TResumeFailed, Set: schemas.Set{Failure: &schemas.Failure{Op: schemas.OpResume, Text: "no", Tried: []schemas.HostID{"a"}}}})
	if v := b.until("resumed again", func(v statekv.Versioned) bool { return v.State == schemas.Resuming }); v.Host != "b" {
		t.Errorf("it is tried on host %s", v.Host)
	}
}

// known gives what a fleet knows once it has caught up.
func known(f *Fleet) (all []statekv.Versioned) {
	f.mu.Lock()
	caughtUp := f.known
	f.mu.Unlock()
	for v := range f.Busy {
		if caughtUp {
			all = append(all, v)
		}
	}
	return all
}
