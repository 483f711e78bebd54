package worker

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// cpuFloor is the share of one core above which a tree counts as working. An
// interpreter that wakes up twice a second stays well below it, a compiler far
// above.
const cpuFloor = 0.05

// sighting is one look at a session.
type sighting struct {
	at     time.Time
	seen   driver.Observation
	pid    int
	leases map[string]time.Time // by key: when the lease was last published
}

// observeAll looks at the sessions that run here, again and again, and reports
// as leases what says that they are in use: publishers forget, and a build must
// not be suspended because nobody typed.
func (w *Worker) observeAll(ctx context.Context) error {
	running := map[schemas.Name]statekv.Versioned{}
	updates := make(chan statekv.Versioned, 64)
	done := make(chan error, 1)
	go func() {
		done <- w.Records.Watch(ctx, func(v statekv.Versioned) {
			select {
			case updates <- v:
			case <-ctx.Done():
			}
		}, func() {})
	}()
	tick := time.NewTicker(w.Observe)
	defer tick.Stop()
	first := time.NewTimer(firstLook)
	defer first.Stop()
	for {
		select {
		case v := <-updates:
			if v.Host == w.Host && v.State == schemas.Running {
				running[v.Name()] = v
				if !w.seen(v.UID) {
					first.Reset(firstLook)
				}
			} else if old, ok := running[v.Name()]; ok {
				delete(running, v.Name())
				w.forget(old.UID)
			}
		case <-first.C:
			for _, v := range running {
				if !w.seen(v.UID) {
					w.observe(ctx, v)
				}
				if !w.seen(v.UID) {
					first.Reset(firstLook) // it isn't there yet
				}
			}
		case <-tick.C:
			for _, v := range running {
				w.observe(ctx, v)
			}
		case err := <-done:
			return err
		}
	}
}

// firstLook is how soon a session that came to run is looked at, so that lists
// show its memory.
const firstLook = 50 * time.Millisecond

func (w *Worker) seen(uid schemas.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.observed[uid]
	return ok
}

func (w *Worker) forget(uid schemas.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.observed, uid)
}

func (w *Worker) observedCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.observed)
}

func (w *Worker) observe(ctx context.Context, v statekv.Versioned) {
	d, ok := w.Drivers[v.Driver].(driver.Observer)
	if !ok {
		return
	}
	o, err := d.Observe(ctx, v.UID)
	if err != nil {
		return // it is being started, or ending: the next look tells
	}
	i, err := w.Drivers[v.Driver].Inspect(ctx, v.UID)
	if err != nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	last, before := w.observed[v.UID]
	next := sighting{at: now, seen: o, pid: i.PID, leases: last.leases}
	if next.leases == nil {
		next.leases = map[string]time.Time{}
	}
	w.observed[v.UID] = next
	w.mu.Unlock()
	if before {
		w.report(ctx, v, signs(last, next), next)
	}
}

// sign is one reason to call a session used.
type sign struct {
	kind   schemas.Kind
	key    string
	reason string
}

// signs says what two looks at a session tell of its use.
func signs(last, next sighting) []sign {
	var out []sign
	if span := next.at.Sub(last.at); span > 0 && next.seen.CPU > last.seen.CPU {
		if share := float64(next.seen.CPU-last.seen.CPU) / float64(span); share > cpuFloor {
			out = append(out, sign{schemas.KindBusy, "cpu", "its processes use the CPU"})
		}
	}
	if next.seen.Foreground != "" {
		out = append(out, sign{schemas.KindBusy, "foreground", next.seen.Foreground + " runs in its terminal"})
	}
	if next.seen.Execs > 0 {
		out = append(out, sign{schemas.KindBusy, "exec", "a command started by exec runs"})
	}
	if next.seen.Inbound > 0 {
		out = append(out, sign{schemas.KindPresence, "tcp", "connections from outside are open"})
	}
	return out
}

// report publishes leases of three looks' length, renewed at every other look.
func (w *Worker) report(ctx context.Context, v statekv.Versioned, signs []sign, s sighting) {
	ttl := 3 * w.Observe
	for _, sg := range signs {
		key := string(sg.kind) + "." + sg.key
		if s.at.Sub(s.leases[key]) < ttl/2 {
			continue
		}
		a := schemas.Activity{TTL: schemas.Duration(ttl), Reason: sg.reason, By: "worker@" + string(w.Host)}
		if _, err := w.Bus.Activity(ctx, v.Name(), sg.kind, sg.key, a); err != nil {
			w.Log.Warn("what was seen is not published", "session", v.Name().String(), "err", err)
			continue
		}
		w.mu.Lock()
		s.leases[key] = s.at
		w.mu.Unlock()
	}
}
