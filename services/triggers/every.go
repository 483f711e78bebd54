package triggers

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/diapause/diapause/events/beat"
	"github.com/diapause/diapause/schemas"
)

// Timed makes checkpoints of sessions whose last snapshot is as old as their policy lets it get; Serve
// runs it. What it goes by is in the records, so that a restart makes none earlier or later.
type Timed struct {
	// Wanted reports whether any policy asks for it: else nothing is looked at.
	Wanted func() bool
	// Running gives the sessions that run, as they were read last.
	Running func() iter.Seq[schemas.SessionRecord]
	// Every is how old a session's last snapshot may get; 0 is no limit.
	Every func(schemas.SessionRecord) time.Duration
	// Changed says which sessions of a host may have executed something since their last snapshot; ok is
	// false if the host doesn't answer.
	Changed func(context.Context, schemas.HostID) (changed func(schemas.UID) bool, ok bool)
	// Renew makes a checkpoint unless the session isn't any more as it was read, and waits for it.
	Renew func(ctx context.Context, r schemas.SessionRecord, reason string) (Outcome, error)
	// Count, if given, is told what became of each.
	Count func(trigger, outcome string)
	Log   *slog.Logger

	wg   sync.WaitGroup
	mu   sync.Mutex
	busy map[schemas.HostID]bool // hosts that a checkpoint is made on
}

// ByInterval is the trigger that the snapshots have.
const ByInterval = "every"

// between is the time between two looks at all sessions.
const between = 2 * time.Second

// Serve makes checkpoints until ctx ends, and returns when all that it began has stopped. On each
// host it makes one at a time.
func (t *Timed) Serve(ctx context.Context) error {
	defer t.wg.Wait()
	t.busy = map[schemas.HostID]bool{}
	tick := beat.NewTicker(between)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			tick.Next()
		case <-ctx.Done():
			return nil
		}
		if !t.Wanted() {
			continue
		}
		for host, due := range t.due(time.Now()) {
			if t.take(host) {
				t.wg.Go(func() { t.work(ctx, host, due) })
			}
		}
	}
}

// aged is a session whose last snapshot is too old.
type aged struct {
	record schemas.SessionRecord
	since  time.Time // when the next one was due
	every  time.Duration
}

// due gives what is due on each host, the longest first.
func (t *Timed) due(now time.Time) map[schemas.HostID][]aged {
	out := map[schemas.HostID][]aged{}
	for r := range t.Running() {
		every := t.Every(r)
		if every == 0 || r.Op != nil {
			continue
		}
		if at := Due(r, every); !at.After(now) {
			out[r.Host] = append(out[r.Host], aged{r, at, every})
		}
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b aged) int { return a.since.Compare(b.since) })
	}
	return out
}

func (t *Timed) take(host schemas.HostID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[host] {
		return false
	}
	t.busy[host] = true
	return true
}

func (t *Timed) giveBack(host schemas.HostID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, host)
}

// work makes what is due on one host, one after the other.
func (t *Timed) work(ctx context.Context, host schemas.HostID, due []aged) {
	defer t.giveBack(host)
	changed, ok := t.Changed(ctx, host)
	if !ok {
		return // it is asked again at the next look
	}
	for _, a := range due {
		if !changed(a.record.UID) {
			continue
		}
		o := t.renew(ctx, a)
		if t.Count != nil {
			t.Count(ByInterval, o.Word)
		}
		if o.Word == Failed {
			t.Log.Warn("no checkpoint at its interval; the session runs on", a.record.Logged("err", o.Why)...)
		}
		select {
		case <-time.After((share - 1) * o.Frozen): // its host has others to do, too
		case <-ctx.Done():
			return
		}
	}
}

func (t *Timed) renew(ctx context.Context, a aged) Outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o, err := t.Renew(ctx, a.record, fmt.Sprintf("its policy says every %s", schemas.Duration(a.every)))
	if err != nil {
		return Outcome{Word: Failed, Why: err.Error(), Frozen: o.Frozen}
	}
	return o
}

// Due says when a session that runs is due for a checkpoint: when its last snapshot, or its start, is as
// old as it may get, and up to a tenth earlier, so that sessions that came to run together are captured one
// after the other. After a failure it waits for growing times.
func Due(r schemas.SessionRecord, every time.Duration) time.Time {
	last := r.Created
	if r.Size != nil {
		last = r.Size.At
	}
	if !undone(r.Transition.Type) && r.Since.After(last) {
		last = r.Since
	}
	at := last.Add(every - spread(r.UID, every))
	if f := r.Failure; f != nil && f.Op == schemas.OpCheckpoint {
		if again := f.At.Add(min(every, least<<min(f.Count+2, 16), longest)); again.After(at) {
			return again
		}
	}
	return at
}

// undone reports whether a session runs since that change though it ran before: its state was entered
// again, and it didn't come from a snapshot.
func undone(t schemas.TransitionType) bool {
	return t == schemas.TSuspendAborted || t == schemas.TSuspendFailed || t == schemas.TRevived
}

func spread(uid schemas.UID, every time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(uid))
	return every / 10 * time.Duration(h.Sum32()%256) / 256
}
