package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
)

// Log is what usage is folded from.
type Log struct {
	JS      jetstream.JetStream
	Names   stream.Names
	Records *statekv.Store
	Past    *archive.Reader // of Records, and what was moved out of them; nil if nothing was
}

// Want is whose usage, and of which time, is asked for.
type Want struct {
	Tenant   schemas.Tenant // all if empty
	Session  schemas.SessionID
	From, To time.Time // From may be zero: the beginning of the log
	Most     int       // sessions that are listed; the sums are of all
	Daily    bool      // sums of days, too; From isn't zero
}

// Report folds the log, up to now, into what was used.
func (l Log) Report(ctx context.Context, w Want) (schemas.UsageReport, error) {
	f := NewFold(w.From, w.To)
	if w.Daily {
		f.Days(Midnights(w.From, w.To)...)
	}
	if err := l.measures(ctx, w.Tenant, f.Measured); err != nil {
		return schemas.UsageReport{}, err
	}
	past := l.Past
	if past == nil {
		past = archive.Untouched(l.Records)
	}
	gaps, err := past.Log(ctx, w.Tenant, w.From, func(v statekv.Versioned) error {
		if w.Session == "" || v.Session == w.Session {
			f.Add(v)
		}
		return nil
	})
	if err != nil {
		return schemas.UsageReport{}, fmt.Errorf("sum up usage: %w", err)
	}
	f.Advance(w.To, none)
	out := report(f, w)
	if w.Daily {
		out.Days = f.days.usage()
	}
	for _, g := range gaps {
		if w.Session == "" || g.Name.Session == "" || g.Name.Session == w.Session {
			out.Gaps = append(out.Gaps, g.String())
		}
	}
	return out, nil
}

// none is for counting all sessions.
func none(*Session) bool { return false }

// report lists what was used between the two edges.
func report(f *Fold, w Want) schemas.UsageReport {
	out := schemas.UsageReport{From: w.From, To: w.To, Tenants: []schemas.TenantUsage{}, Sessions: []schemas.Usage{}}
	sums := map[schemas.Tenant]Amount{}
	tenants := map[schemas.Tenant]schemas.TenantUsage{}
	for s := range f.Sessions {
		a := s.In(1)
		if a == (Amount{}) {
			continue
		}
		sums[s.Name.Tenant] = sums[s.Name.Tenant].Plus(a)
		t := tenants[s.Name.Tenant]
		t.Tenant, t.StoredBytes = s.Name.Tenant, t.StoredBytes+s.Stored
		if _, template := s.Name.Template(); template { // it is no session, but takes room
			tenants[s.Name.Tenant] = t
			continue
		}
		t.Sessions++
		tenants[s.Name.Tenant] = t
		out.Sessions = append(out.Sessions, s.usage(w.From, w.To, a))
	}
	for tenant, t := range tenants {
		t.Amount = sums[tenant].Wire()
		out.Tenants = append(out.Tenants, t)
	}
	slices.SortFunc(out.Tenants, func(a, b schemas.TenantUsage) int { return cmp.Compare(a.Tenant, b.Tenant) })
	slices.SortFunc(out.Sessions, func(a, b schemas.Usage) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name), a.From.Compare(b.From), cmp.Compare(a.UID, b.UID))
	})
	if len(out.Sessions) > w.Most {
		out.Omitted = len(out.Sessions)
		out.Sessions = []schemas.Usage{}
	}
	return out
}

// usage gives an amount of the session as it travels.
func (s *Session) usage(from, to time.Time, a Amount) schemas.Usage {
	if began := s.Began(); began.After(from) {
		from = began
	}
	return schemas.Usage{
		Name: s.Name.String(), Tenant: s.Name.Tenant, UID: s.UID, From: from.UTC(), To: to.UTC(),
		State: s.State, StoredBytes: s.Stored, Amount: a.Wire(),
	}
}

// measures tells what sessions' images were found to take.
func (l Log) measures(ctx context.Context, t schemas.Tenant, fn func(schemas.Name, schemas.UID, time.Time, int64)) error {
	return l.events(ctx, t, measureType, jetstream.DeliverAllPolicy, func(e schemas.Event, _ uint64) {
		fn(schemas.Name{Tenant: e.Tenant, Session: e.Session}, e.UID, e.At, e.Bytes)
	})
}

// measureType is the type of the janitor's events of what images take.
const measureType = "stored"

// events reads the events of a type that there are, of one tenant or all.
func (l Log) events(ctx context.Context, t schemas.Tenant, kind string, which jetstream.DeliverPolicy, fn func(e schemas.Event, seq uint64)) error {
	all := false
	read, stop := context.WithCancel(ctx)
	defer stop()
	err := l.follow(read, t, kind, which, fn, func() {
		all = true
		stop()
	})
	if err == nil && !all {
		err = fmt.Errorf("read events: %w", ctx.Err())
	}
	return err
}

// follow reads them, and those that come, until ctx ends.
func (l Log) follow(ctx context.Context, t schemas.Tenant, kind string, which jetstream.DeliverPolicy, fn func(e schemas.Event, seq uint64), caughtUp func()) error {
	s, err := l.JS.Stream(ctx, l.Names.Events())
	if err != nil {
		return fmt.Errorf("find stream %s: %w", l.Names.Events(), err)
	}
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: which, FilterSubjects: []string{
		fmt.Sprintf("%s.%s.*.%s", schemas.SubjectEvent, cmp.Or(string(t), "*"), kind),
	}}
	return stream.Consume(ctx, l.JS, s, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		var e schemas.Event
		if json.Unmarshal(msg.Data, &e) == nil { // what isn't one tells nothing
			fn(e, meta.Sequence.Stream)
		}
		return nil
	}, caughtUp, func() {})
}
