package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recovery"
)

// logEnd is the end of the log of sessions.
type logEnd struct {
	recovery.Mark
	cluster  bool     // several servers have it, and one may give a stale answer
	replaced []string // signs that an entry which was seen is another one now
}

// logEnd asks the log's leader for the end, and whether the log still has what was seen.
func (r *Rebuilder) logEnd(ctx context.Context, saw ...recovery.Mark) (logEnd, error) {
	s, err := r.JS.Stream(ctx, r.Names.SessionStream())
	if err != nil {
		return logEnd{}, fmt.Errorf("find the log of sessions: %w", err)
	}
	info := s.CachedInfo()
	is := logEnd{Mark: recovery.Mark{Created: info.Created.UTC(), Seq: info.State.LastSeq}, cluster: info.Config.Replicas > 1}
	for _, m := range saw {
		if m.ID == "" || !m.Created.Equal(is.Created) || m.Seq > is.Seq {
			continue // Compare says what that means
		}
		id, err := transitionAt(ctx, s, m.Seq)
		if err != nil {
			return is, err
		}
		is.replaced = append(is.replaced, recovery.Replaced(m, id)...)
		if m.Seq == is.Seq {
			is.ID = id
		}
	}
	if is.ID == "" {
		is.ID, err = transitionAt(ctx, s, is.Seq)
	}
	return is, err
}

// transitionAt gives the id of an entry's transition; "" if the server that answers doesn't have
// the entry: it may be behind.
func transitionAt(ctx context.Context, s jetstream.Stream, seq uint64) (string, error) {
	if seq == 0 {
		return "", nil
	}
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read entry %d of the log of sessions: %w", seq, err)
	}
	var rec schemas.SessionRecord
	if err := json.Unmarshal(m.Data, &rec); err != nil {
		return "", fmt.Errorf("decode entry %d of the log of sessions: %w", seq, err)
	}
	return rec.Transition.ID, nil
}

// witnesses are the last entries of the log that were read on each connection to NATS, until a
// look finds them in the log: after a connection was lost, another log may be read that goes on
// where the earlier one ended.
type witnesses struct {
	mu   sync.Mutex
	last map[uint64]recovery.Mark // by connection
}

func (s *witnesses) see(connection, seq uint64, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[uint64]recovery.Mark{}
	}
	s.last[connection] = recovery.Mark{Seq: seq, ID: id}
}

func (s *witnesses) all() map[uint64]recovery.Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.last)
}

// found drops those that were found.
func (s *witnesses) found(all map[uint64]recovery.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for connection, m := range all {
		if s.last[connection] == m {
			delete(s.last, connection)
		}
	}
}

// See notes an entry of the log that was read, for the next look.
func (r *Rebuilder) See(v statekv.Versioned) {
	r.witnesses.see(r.JS.Conn().Stats().Reconnects, v.Rev.Seq(), v.Transition.ID)
}

// followEvery is how often the end of the log is looked at while it changes.
const followEvery = time.Second

// lookWait bounds one look: a request that is lost with its server is never answered.
const lookWait = 2 * time.Second

// look compares the log with what was seen of it before, and notes its end if there is no sign
// that it went back. others reports whether other hosts recover already.
func (r *Rebuilder) look(ctx context.Context) (is logEnd, signs []string, others bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	furthest := r.Ledger.Mark()
	saw, seen := []recovery.Mark{furthest}, r.witnesses.all() // before the log is asked: it may go on meanwhile
	for _, m := range seen {
		saw = append(saw, m)
	}
	if records, ok := r.Records.(interface{ Reached() (uint64, string) }); ok {
		seq, id := records.Reached()
		saw = append(saw, recovery.Mark{Seq: seq, ID: id})
	}
	for i := range saw {
		saw[i].Created = furthest.Created
		furthest.Seq = max(furthest.Seq, saw[i].Seq)
	}
	if is, err = r.logEnd(ctx, saw...); err != nil {
		return is, nil, false, err
	}
	signs = append(is.replaced, recovery.Compare(furthest, is.Mark, nil, nil, nil)...)
	if r.Lease != nil {
		if back, err := r.Lease.WentBack(ctx); err == nil && back {
			signs = append(signs, "the leases of hosts end before one that this host renewed")
		}
	}
	if len(signs) > 0 {
		return is, signs, r.recovering(ctx), nil
	}
	if err := r.Ledger.Reach(is.Mark); err != nil {
		r.Log.Warn("could not remember how far the log is", "err", err)
	} else {
		r.witnesses.found(seen)
	}
	return is, nil, r.recovering(ctx), nil
}

// restEvery is how often the end of the log is looked at while nothing is heard to change.
const restEvery = 10 * time.Second

// FollowLog notes the end of the log within a second of each change of it. It returns ErrWentBack
// if the log ends before an entry that was seen, or is another log, or if another host recovers:
// it looks within a second of a change of the log or of the fleet's recovery, at once when the
// connection is back, and now and then without that. While NATS doesn't answer it waits.
func (r *Rebuilder) FollowLog(ctx context.Context) error {
	back := r.JS.Conn().StatusChanged(nats.CONNECTED)
	defer r.JS.Conn().RemoveStatusListener(back)
	ctx, stop := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer stop()
	changed := r.changes(ctx, &hearing)
	for bad, counts := 0, true; ; {
		is, signs, others, err := r.look(ctx)
		wait := restEvery
		switch {
		case err != nil: // the next look tells
			wait = followEvery
		case others:
			return fmt.Errorf("%w: another host recovers already", ErrWentBack)
		case len(signs) == 0:
			bad = 0
		case !is.cluster || bad >= patience:
			return fmt.Errorf("%w: %s", ErrWentBack, strings.Join(signs, "; "))
		default:
			wait = followEvery
			if counts {
				bad++
			}
		}
		if counts, err = pause(ctx, wait, changed, back); err != nil {
			return nil
		}
	}
}

// pause waits until the next look: for a time, or until followEvery after the last look if
// something changed. counts is false if the connection is back, and no time need have passed; the
// error is that of ctx.
func pause(ctx context.Context, wait time.Duration, changed <-chan struct{}, back <-chan nats.Status) (counts bool, err error) {
	least, most := time.NewTimer(followEvery), time.NewTimer(wait)
	defer least.Stop()
	defer most.Stop()
	for due, news := false, false; ; {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-back: // a server is there again: it may not be as it was
			return false, nil
		case <-changed:
			news = true
		case <-least.C:
			due = true
		case <-most.C:
			return true, nil
		}
		if due && news {
			return true, nil
		}
	}
}

// changes tells of what is a reason to look: an entry of the log or of the fleet's bucket, and a
// stream of them, or of the leases, that went away and is back.
func (r *Rebuilder) changes(ctx context.Context, hearing *sync.WaitGroup) <-chan struct{} {
	changed := make(chan struct{}, 1)
	listen := func(name string, all bool, subjects ...string) {
		hearing.Go(func() {
			stream.Changes(ctx, r.JS, name, subjects, func(lost bool) {
				if !all && !lost {
					return
				}
				select {
				case changed <- struct{}{}:
				default: // one look is enough
				}
			})
		})
	}
	listen(r.Names.SessionStream(), true)
	listen("KV_"+r.Names.Fleet(), true)
	if r.Lease != nil {
		listen("KV_"+r.Names.Leases(), false, r.Names.LeaseSubject(r.Host))
	}
	return changed
}
