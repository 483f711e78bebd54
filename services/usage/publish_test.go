package usage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/usage"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 2 * time.Minute

// bench is a NATS server with records.
type bench struct {
	*testing.T
	ctx context.Context
	js  jetstream.JetStream
	log usage.Log
}

func newBench(t *testing.T) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	b := &bench{T: t, ctx: ctx}
	b.js = natstest.Streams(t)
	names := stream.NamesWith("")
	records, err := statekv.Open(ctx, b.js, names)
	b.must(err)
	b.log = usage.Log{JS: b.js, Names: names, Records: records}
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) swap(v statekv.Versioned, t schemas.TransitionType, set schemas.Set) statekv.Versioned {
	b.Helper()
	v, err := b.log.Records.Swap(b.ctx, v, schemas.Transition{Type: t, Set: set})
	b.must(err)
	return v
}

func (b *bench) run(id, uid string) statekv.Versioned {
	b.Helper()
	prev, _ := b.log.Records.Get(b.ctx, schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)})
	v := b.swap(prev, schemas.TRun, schemas.Set{Op: &schemas.Op{ID: "o"}, New: &schemas.NewSession{UID: schemas.UID(uid), Tenant: "acme", Session: schemas.SessionID(id)}})
	return b.swap(v, schemas.TStarted, schemas.Set{})
}

// stored gives the events that the stream has taken, by session, in their order.
func (b *bench) stored() map[schemas.UID][]schemas.Usage {
	b.Helper()
	s, err := b.js.Stream(b.ctx, b.log.Names.Events())
	b.must(err)
	out := map[schemas.UID][]schemas.Usage{}
	for seq := uint64(0); ; {
		raw, err := s.GetMsg(b.ctx, seq+1, jetstream.WithGetMsgSubject(schemas.SubjectEvent+".*.*.usage"))
		if err != nil {
			return out
		}
		var e schemas.Event
		b.must(json.Unmarshal(raw.Data, &e))
		out[e.UID], seq = append(out[e.UID], *e.Usage), raw.Sequence
	}
}

// publishers begin to publish, and stop when the function that is returned is called.
func (b *bench) publishers(n int) (stop func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	var wg sync.WaitGroup
	for range n {
		p := &usage.Publisher{Log: b.log, Every: time.Second, Actor: "test"}
		wg.Go(func() {
			if err := p.Serve(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// until waits for something to hold.
func (b *bench) until(what string, holds func() bool) {
	b.Helper()
	for !holds() {
		select {
		case <-b.ctx.Done():
			b.Fatalf("waited in vain for %s: %+v", what, b.stored())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Two publishers that are stopped and started again say each second of each session once,
// and what they say comes to what the log says.
func TestPublisher(t *testing.T) {
	b := newBench(t)
	early := b.run("early", "u1") // before anybody publishes
	stop := b.publishers(2)
	b.until("the first event", func() bool { return len(b.stored()["u1"]) > 0 })
	late := b.run("late", "u2")
	late = b.swap(late, schemas.TCheckpoint, schemas.Set{Op: &schemas.Op{}})
	late = b.swap(late, schemas.TCheckpointed, size(1000))
	b.until("an event of the late one", func() bool { return len(b.stored()["u2"]) > 0 })
	stop()
	early = b.swap(early, schemas.TSuspend, schemas.Set{Op: &schemas.Op{}}) // without a publisher
	b.swap(early, schemas.TSuspended, size(500))
	late = b.swap(late, schemas.TRemove, schemas.Set{Op: &schemas.Op{}})
	b.swap(late, schemas.TRemoved, schemas.Set{})
	b.run("late", "u3")
	before := b.stored()
	stop = b.publishers(2)
	b.until("events of all after the pause", func() bool {
		now := b.stored()
		return len(now["u1"]) > len(before["u1"]) && len(now["u2"]) > len(before["u2"]) && len(now["u3"]) > 1
	})
	stop()
	b.check()
}

// Sessions that start while others are published disturb no other.
func TestPublisherWhileSessionsBegin(t *testing.T) {
	b := newBench(t)
	b.run("s", "u")
	stop := b.publishers(1)
	n := 0
	b.until("three events of the first one", func() bool {
		for range 10 {
			n++
			b.run(fmt.Sprint("s", n), fmt.Sprint("u", n))
		}
		return len(b.stored()["u"]) >= 3
	})
	stop()
}

// late is how late a revision may reach a publisher, in seconds.
const late = 10

// check compares what was said with what the log says.
func (b *bench) check() {
	b.Helper()
	for uid, all := range b.stored() {
		for i := 1; i < len(all); i++ {
			if !all[i].From.Equal(all[i-1].To) {
				b.Errorf("session %s: an event ends at %s, the next begins at %s", uid, all[i-1].To, all[i].From)
			}
		}
		last := all[len(all)-1]
		report, err := b.log.Report(b.ctx, usage.Want{Tenant: "acme", To: last.To, Most: 10})
		b.must(err)
		i := slices.IndexFunc(report.Sessions, func(u schemas.Usage) bool { return u.UID == uid })
		if i < 0 {
			b.Fatalf("session %s: not in the report %+v", uid, report)
		}
		var said schemas.Amount
		for _, u := range all {
			said.RunningSeconds += u.RunningSeconds
			said.SuspendedSeconds += u.SuspendedSeconds
			said.OtherSeconds += u.OtherSeconds
			said.StoredByteSeconds += u.StoredByteSeconds
			said.WrittenBytes += u.WrittenBytes
			said.Suspends += u.Suspends
			said.Checkpoints += u.Checkpoints
		}
		want := report.Sessions[i]
		// What reached a publisher late, on a slow machine, counts from the next second: the
		// sum is exact all the same.
		near := func(x, y float64) bool { return math.Abs(x-y) < late }
		total := func(a schemas.Amount) float64 { return a.RunningSeconds + a.SuspendedSeconds + a.OtherSeconds }
		if math.Abs(total(said)-total(want.Amount)) > 1e-6 || !near(said.RunningSeconds, want.RunningSeconds) || !near(said.SuspendedSeconds, want.SuspendedSeconds) ||
			!near(said.StoredByteSeconds/1000, want.StoredByteSeconds/1000) || said.WrittenBytes != want.WrittenBytes || said.Suspends != want.Suspends || said.Checkpoints != want.Checkpoints {
			b.Errorf("session %s: said %+v, the log %+v", uid, said, want.Amount)
		}
		if !all[0].From.Equal(want.From) {
			b.Errorf("session %s: the first event begins at %s, the session at %s", uid, all[0].From, want.From)
		}
	}
}

// The report sums up sessions by tenant, of a time, and takes what was deleted from what
// the janitor measured.
func TestReport(t *testing.T) {
	b := newBench(t)
	one := b.run("one", "u1")
	one = b.swap(one, schemas.TSuspend, schemas.Set{Op: &schemas.Op{}})
	b.swap(one, schemas.TSuspended, size(1000))
	b.run("two", "u2")
	e := schemas.Event{Type: "stored", Tenant: "acme", Session: "one", UID: "u1", Bytes: 400, At: time.Now().UTC()}
	b.must(stream.Publisher{JS: b.js}.Event(b.ctx, e))
	report := func(w usage.Want) schemas.UsageReport {
		t.Helper()
		w.To = time.Now().Add(time.Hour)
		out, err := b.log.Report(b.ctx, w)
		b.must(err)
		return out
	}
	all := report(usage.Want{Most: 10})
	if len(all.Sessions) != 2 || len(all.Tenants) != 1 || all.Tenants[0].Sessions != 2 || all.Tenants[0].Suspends != 1 || all.Tenants[0].StoredBytes != 400 {
		t.Errorf("all: %+v", all)
	}
	if s := all.Sessions[0]; s.Name != "acme/one" || s.SuspendedSeconds < 3500 || s.StoredBytes != 400 || s.WrittenBytes != 1000 || s.State != schemas.Suspended {
		t.Errorf("one: %+v", s)
	}
	if s := all.Sessions[1]; s.RunningSeconds < 3500 || s.SuspendedSeconds != 0 {
		t.Errorf("two: %+v", s)
	}
	sums := all.Tenants[0].RunningSeconds - all.Sessions[0].RunningSeconds - all.Sessions[1].RunningSeconds
	if math.Abs(sums) > 1e-6 {
		t.Errorf("the tenant's sum is %g off", sums)
	}
	if named := report(usage.Want{Tenant: "acme", Session: "two", Most: 10}); len(named.Sessions) != 1 || named.Sessions[0].UID != "u2" {
		t.Errorf("two alone: %+v", named)
	}
	if other := report(usage.Want{Tenant: "other", Most: 10}); len(other.Sessions) != 0 || len(other.Tenants) != 0 {
		t.Errorf("another tenant: %+v", other)
	}
	if few := report(usage.Want{Most: 1}); len(few.Sessions) != 0 || few.Omitted != 2 || len(few.Tenants) != 1 {
		t.Errorf("too many: %+v", few)
	}
	hour := report(usage.Want{From: time.Now().Add(30 * time.Minute), Most: 10})
	if len(hour.Sessions) != 2 || math.Abs(hour.Sessions[1].RunningSeconds-1800) > 120 || hour.Tenants[0].Suspends != 0 {
		t.Errorf("the second half hour: %+v", hour)
	}
}
