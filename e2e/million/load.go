package million

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	Rate        float64 // messages a second that the stream took
	Decisions   int
	Median, P99 time.Duration // after the grace had passed, until the record said so
	Worst       time.Duration
}

// graceOf is that of the sessions whose suspend is timed: long enough for what is
// said of them to arrive, short enough for many in one run.
const graceOf = 2 * time.Second

// sampled is how many sessions a second become idle while activity comes in.
const sampled = 20

// late makes activity of n sessions at a rate, and times the suspends of others.
func (f *Found) late(ctx context.Context, s *servers, n, rate int) (Late, error) {
	f.Log("%d messages a second for %s, over %d server(s)", rate, f.Load, len(s.all))
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
		out.Rate, err = f.flood(loud, s, n, rate)
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
	return w.judge(ctx, js, out)
}

// flood publishes input of sessions, one after the other in no order, and gives the
// rate at which the stream took it.
func (f *Found) flood(ctx context.Context, s *servers, n, rate int) (float64, error) {
	nc, err := s.connect()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(stall))
	if err != nil {
		return 0, err
	}
	first, err := lastOf(js)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for sent := 0; ctx.Err() == nil; <-tick.C {
		for due := int(time.Since(began).Seconds() * float64(rate)); sent < due; sent++ {
			if err := nc.Publish(schemas.ActivitySubject(nameOf(rand.N(n)), schemas.KindInput, ""), nil); err != nil {
				return 0, err
			}
		}
	}
	last, err := lastOf(js)
	return float64(last-first) / time.Since(began).Seconds(), errors.Join(err, nc.Flush())
}

func lastOf(js jetstream.JetStream) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return stream.LastActivity(ctx, js, stream.NamesWith(""))
}

// suspends times the suspends of sessions that fell idle, and carries them out.
type suspends struct {
	work chan statekv.Versioned

	mu    sync.Mutex
	began int                        // sessions that will fall idle
	said  map[schemas.Name]uint64    // the last message of each, in the stream
	ended map[schemas.Name]time.Time // when its record said that it is suspended
}

func watchSuspends(nc *nats.Conn) (*suspends, error) {
	w := &suspends{said: map[schemas.Name]uint64{}, ended: map[schemas.Name]time.Time{}, work: make(chan statekv.Versioned, 100_000)}
	_, err := nc.Subscribe(schemas.SubjectSession+".sample.>", func(m *nats.Msg) {
		now := time.Now()
		var r schemas.SessionRecord
		if json.Unmarshal(m.Data, &r) != nil || r.State != schemas.Suspending {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended[r.Name()] = now
		w.work <- statekv.Versioned{SessionRecord: r}
	})
	return w, errors.Join(err, nc.Flush())
}

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
	n := schemas.Name{Tenant: "sample", Session: schemas.SessionID(fmt.Sprintf("s%d-%d", time.Now().UnixNano(), i))}
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
	var late []time.Duration
	for n, seq := range w.said {
		msg, err := s.GetMsg(ctx, seq)
		if err != nil {
			return out, fmt.Errorf("read the last message of session %s: %w", n, err)
		}
		if w.ended[n].After(msg.Time) { // else the server had it wait for so long that its session was idle before
			late = append(late, w.ended[n].Sub(msg.Time.Add(graceOf)))
		}
	}
	if len(late) == 0 {
		return out, errors.New("no decision could be timed: the server is too slow for what came in")
	}
	slices.Sort(late)
	at := func(part float64) time.Duration { return late[int(part*float64(len(late)-1))] }
	out.Decisions, out.Median, out.P99, out.Worst = len(late), at(0.5), at(0.99), at(1)
	return out, nil
}
