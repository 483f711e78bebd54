package million

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Late is how late decisions were while activity came in.
type Late struct {
	Rate      float64 // messages a second that the stream took
	Records   float64 // and records
	Decisions int
	Spread            // after the grace had passed, until the record said so
	Heard     Spread  // the way of the last activity to the scheduler, after the stream took it
	Decided   Spread  // then after the grace had passed, until its record was read and it was decided
	Written   Spread  // and until the record was stored and said so
	Lull      float64 // seconds into the load when the worst one's grace passed
}

// Spread is how a duration is spread.
type Spread struct{ Median, P99, Worst time.Duration }

func spreadOf(all []time.Duration) Spread {
	slices.Sort(all)
	at := func(part float64) time.Duration { return all[int(part*float64(len(all)-1))] }
	return Spread{at(0.5), at(0.99), at(1)}
}

// graceOf is that of the sessions whose suspend is timed: long enough for what is
// said of them to arrive, short enough for many in one run.
const graceOf = 2 * time.Second

// sampled is how many sessions a second become idle while activity comes in.
const sampled = 20

// late makes activity of n sessions at a rate, and times the suspends of others. One in
// apart of them is spoken of: all of them run if it is runningOf; else most sleep, and are
// woken by what is said.
func (f *Found) late(ctx context.Context, s *servers, n, apart, rate int) (Late, error) {
	f.Log("%d messages a second for %s, over %d server(s), of one session in %d", rate, f.Load, len(s.all), apart)
	nc, err := s.connect()
	if err != nil {
		return Late{}, err
	}
	defer nc.Close()
	w, err := watchSuspends(nc)
	if err != nil {
		return Late{}, err
	}
	g, gctx := errgroup.WithContext(ctx)
	loud, quiet := context.WithTimeout(gctx, f.Load)
	defer quiet()
	var out Late
	g.Go(func() (err error) {
		out.Rate, out.Records, err = f.flood(loud, s, n, apart, rate)
		return err
	})
	g.Go(func() error { return w.sample(loud, gctx, nc) })
	if err := g.Wait(); err != nil {
		return out, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(stall))
	if err != nil {
		return out, err
	}
	if out, err = w.judge(ctx, js, out); err == nil {
		f.Log("%.0f messages and %.0f records a second came in; late by %s at the 99th percentile; %s until heard, %s until decided, %s until written; the latest, by %s, %.0f s into it", out.Rate, out.Records, whole(out.P99), whole(out.Heard.P99), whole(out.Decided.P99), whole(out.Written.P99), whole(out.Worst), out.Lull)
	}
	return out, err
}

func whole(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// flood publishes input of sessions, one after the other in no order, and gives the
// rate at which the stream took it, and that of records meanwhile.
func (f *Found) flood(ctx context.Context, s *servers, n, apart, rate int) (said, records float64, err error) {
	nc, err := s.connect()
	if err != nil {
		return 0, 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(stall))
	if err != nil {
		return 0, 0, err
	}
	first, err := lastOf(js)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for sent := 0; ctx.Err() == nil; <-tick.C {
		for due := int(time.Since(began).Seconds() * float64(rate)); sent < due; sent++ {
			if err := nc.Publish(schemas.ActivitySubject(nameOf(rand.N(n/apart)*apart), schemas.KindInput, ""), nil); err != nil {
				return 0, 0, err
			}
		}
	}
	last, err := lastOf(js)
	took := time.Since(began).Seconds()
	return float64(last.said-first.said) / took, float64(last.records-first.records) / took, errors.Join(err, nc.Flush())
}

// ends are the last sequences of activity and records.
type ends struct{ said, records uint64 }

func lastOf(js jetstream.JetStream) (e ends, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), stall)
	defer cancel()
	names := stream.NamesWith("")
	for name, to := range map[string]*uint64{names.Activity(): &e.said, names.SessionStream(): &e.records} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return e, err
		}
		*to = s.CachedInfo().State.LastSeq
	}
	return e, nil
}

// suspends times the suspends of sessions that fell idle, and carries them out.
type suspends struct {
	work chan statekv.Versioned

	first time.Time // when the first was made

	mu    sync.Mutex
	began int                      // sessions that will fall idle
	said  map[schemas.Name]uint64  // the last message of each, in the stream
	heard map[uint64]time.Time     // when the scheduler heard it
	ended map[schemas.Name]decided // when its record said that it is suspended
}

// decided is a suspend by its record.
type decided struct{ at, seen time.Time }

func watchSuspends(nc *nats.Conn) (*suspends, error) {
	w := &suspends{said: map[schemas.Name]uint64{}, heard: map[uint64]time.Time{}, ended: map[schemas.Name]decided{}, first: time.Now(), work: make(chan statekv.Versioned, 100_000)}
	_, err := nc.Subscribe(schemas.SubjectSession+"."+sampleTenant+".>", func(m *nats.Msg) {
		now := time.Now()
		var r schemas.SessionRecord
		if json.Unmarshal(m.Data, &r) != nil || r.State != schemas.Suspending {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended[r.Name()] = decided{r.Transition.At, now}
		w.work <- statekv.Versioned{SessionRecord: r}
	})
	if err != nil {
		return nil, err
	}
	_, err = nc.Subscribe(heardSubject, func(m *nats.Msg) {
		var h heardAt
		if json.Unmarshal(m.Data, &h) == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.heard[h.Seq] = h.At
		}
	})
	return w, errors.Join(err, nc.Flush())
}

// heardAt is what a scheduler says on heardSubject of each message of the sampled
// sessions.
type heardAt struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
}

const heardSubject = "million.heard"

// sampleTenant has the sessions whose suspend is timed.
const sampleTenant = "sample"

// sample has sessions fall idle while loud lives, and waits until all are suspended.
func (w *suspends) sample(loud, ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(stall))
	if err != nil {
		return err
	}
	records, err := statekv.Open(ctx, js, stream.NamesWith(""))
	if err != nil {
		return err
	}
	working, done := context.WithCancel(ctx)
	defer done()
	go w.carryOut(working, records)
	g, ctx := errgroup.WithContext(ctx)
	tick := time.NewTicker(time.Second / sampled)
	defer tick.Stop()
	for i := 0; loud.Err() == nil; i++ {
		w.mu.Lock()
		w.began++
		w.mu.Unlock()
		g.Go(func() error { return w.one(ctx, js, records, i) })
		<-tick.C
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for deadline := time.Now().Add(graceOf + time.Minute); w.left() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d sessions were not suspended within a minute", w.left())
		}
	}
	return nil
}

// carryOut does what a worker does about a suspend, so that there is room for the next.
func (w *suspends) carryOut(ctx context.Context, records *statekv.Store) {
	for {
		select {
		case v := <-w.work:
			for _, t := range []schemas.TransitionType{schemas.TSuspended, schemas.TReaped} {
				_, _ = records.Update(ctx, v.Name(), func(schemas.SessionRecord) (schemas.Transition, bool, error) {
					return schemas.Transition{Type: t, Set: schemas.Set{Head: &schemas.Head{Name: "sample/l/snaps/1-1", Digest: "d"}}}, true, nil
				}) // one that fails takes up room, and the next are late
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *suspends) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began - len(w.ended)
}

// one makes a session, and says one last thing of it.
func (w *suspends) one(ctx context.Context, js jetstream.JetStream, records *statekv.Store, i int) error {
	n := schemas.Name{Tenant: sampleTenant, Session: schemas.SessionID(fmt.Sprintf("s%d-%d", time.Now().UnixNano(), i))}
	made, err := records.Swap(ctx, statekv.Versioned{}, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{
		Host: schemas.HostID(fmt.Sprint("sample-", i%hosts)), Op: &schemas.Op{ID: "op", Kind: schemas.OpStart}, Idle: &schemas.Idle{Grace: graceOf.Milliseconds()},
		New: &schemas.NewSession{UID: schemas.UID(fmt.Sprint("uid", n.Session)), Tenant: n.Tenant, Session: n.Session, Class: "web", Lineage: "l"},
	}})
	if err != nil {
		return err
	}
	if _, err := records.Swap(ctx, made, schemas.Transition{Type: schemas.TStarted}); err != nil {
		return err
	}
	ack, err := js.Publish(ctx, schemas.ActivitySubject(n, schemas.KindInput, ""), nil)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said[n] = ack.Sequence
	return nil
}

// judge says how late the suspends were: after the server took the last message of a
// session, by the clock that it shares with this process, and its grace.
func (w *suspends) judge(ctx context.Context, js jetstream.JetStream, out Late) (Late, error) {
	s, err := js.Stream(ctx, stream.NamesWith("").Activity())
	if err != nil {
		return out, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var late, hearing, deciding, writing []time.Duration
	worst := time.Duration(math.MinInt64)
	for n, seq := range w.said {
		msg, err := s.GetMsg(ctx, seq)
		if err != nil {
			return out, fmt.Errorf("read the last message of session %s: %w", n, err)
		}
		heard, end, due := w.heard[seq], w.ended[n], msg.Time.Add(graceOf)
		if !end.seen.After(msg.Time) || heard.IsZero() {
			continue // the server had it wait for so long that its session was idle before
		}
		late, hearing = append(late, end.seen.Sub(due)), append(hearing, heard.Sub(msg.Time))
		deciding, writing = append(deciding, end.at.Sub(heard.Add(graceOf))), append(writing, end.seen.Sub(end.at))
		if l := end.seen.Sub(due); l > worst {
			worst, out.Lull = l, due.Sub(w.first).Seconds()
		}
	}
	if len(late) == 0 {
		return out, errors.New("time decisions: the server is too slow for its input")
	}
	out.Decisions, out.Spread, out.Heard, out.Decided, out.Written = len(late), spreadOf(late), spreadOf(hearing), spreadOf(deciding), spreadOf(writing)
	return out, nil
}
