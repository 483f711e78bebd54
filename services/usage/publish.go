package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Publisher says what each session used, as events of the type "usage".
//
// There is one for each session and hour, by the clock, in which it ran or something was
// done to it. Not at transitions: a session that runs for a month would be heard of when
// it is over. A session that slept through an hour is spoken for in its next event, at
// midnight UTC at the latest: a million sleeping sessions cost a million events a day, not
// an hour. So each says from when to when it is, and those of a session follow each other
// without a gap. After a time without a publisher, one event covers it.
//
// An event's id is the session's uid and its end. It is said once: of two publishers, or
// one that lost an answer, the stream takes the first. All is in the log besides, so that
// what is said comes to what Report says.
type Publisher struct {
	Log
	Every time.Duration // of the clock in UTC; nothing is published if zero
	Actor string
	Notes *slog.Logger

	mu     sync.Mutex // guards all below
	fold   *Fold
	edge   time.Time // the end of the period that is summed up now
	known  bool      // the log was read
	last   map[schemas.Name]said
	passed map[schemas.Name]bool // the session that was spoken of last was seen in the log
}

// said is the last event of the sessions of a name.
type said struct {
	uid schemas.UID
	to  time.Time
	seq uint64 // in the stream of events
}

// settle is how long after a period's end it is published, so that what was made in it
// has arrived: at most this, and a thirtieth of the period.
const settle = 2 * time.Minute

// errOverlap says that another publisher covered a part of the time already.
var errOverlap = errors.New("another has published usage of a part of this time")

// Serve publishes until ctx ends.
func (p *Publisher) Serve(ctx context.Context) error {
	if p.Every <= 0 {
		return nil
	}
	if p.Notes == nil {
		p.Notes = slog.New(slog.DiscardHandler)
	}
	for {
		err := p.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		p.Notes.Warn("metering usage starts again", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// again is the pause before metering starts again.
const again = 5 * time.Second

func (p *Publisher) serve(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	measured := make(chan struct{}) // all that was, until now
	g.Go(func() error {
		return p.follow(ctx, "", measureType, jetstream.DeliverAllPolicy, func(e schemas.Event, _ uint64) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.fold.Measured(schemas.Name{Tenant: e.Tenant, Session: e.Session}, e.UID, e.At, e.Bytes)
		}, func() { close(measured) })
	})
	g.Go(func() error {
		select {
		case <-measured:
		case <-ctx.Done():
			return nil
		}
		return p.Records.Follow(ctx, func(v statekv.Versioned) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.fold.Add(v)
			return nil
		}, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.known = true
		})
	})
	g.Go(func() error { return p.publish(ctx) })
	return g.Wait()
}

// Stored is what all snapshots of a session take in the store, as far as this publisher has
// read the log. It is unknown where nothing is published.
func (p *Publisher) Stored(n schemas.Name, uid schemas.UID) (bytes int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return 0, false
	}
	return p.fold.stored(n, uid)
}

// Total is what the snapshots of all sessions take in the store. It is unknown until the log was read, and
// where nothing is published.
func (p *Publisher) Total() (bytes int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return 0, false
	}
	for n, last := range p.fold.sessions {
		if !last.gone {
			stored, _ := p.fold.stored(n, last.UID)
			bytes += stored
		}
	}
	return bytes, true
}

// begin reads what was said before.
func (p *Publisher) begin(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edge = time.Now().Truncate(p.Every).Add(p.Every)
	p.fold, p.known, p.last, p.passed = NewFold(p.edge), false, map[schemas.Name]said{}, map[schemas.Name]bool{}
	p.fold.floor = p.floor
	return p.events(ctx, "", eventType, jetstream.DeliverLastPerSubjectPolicy, func(e schemas.Event, seq uint64) {
		if e.Usage != nil {
			p.last[schemas.Name{Tenant: e.Tenant, Session: e.Session}] = said{e.UID, e.Usage.To, seq}
		}
	})
}

// floor says up to when a session was spoken for: events of a name are said in the order
// of its sessions, so those before the one that was spoken of last were, and those after
// it weren't. The fold asks it with mu held.
func (p *Publisher) floor(n schemas.Name, uid schemas.UID) time.Time {
	l, ok := p.last[n]
	switch {
	case !ok || p.passed[n]:
		return time.Time{}
	case uid == l.uid:
		p.passed[n] = true
	}
	return l.to
}

// publish says what was used at the end of each period.
func (p *Publisher) publish(ctx context.Context) error {
	for {
		wait := time.Until(p.edge.Add(min(settle, p.Every/30)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(min(wait, time.Minute), 10*time.Millisecond)): // a clock may be set
		}
		due := p.due()
		if due == nil {
			continue
		}
		told, err := p.say(ctx, due)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.edge = p.edge.Add(p.Every)
		p.fold.Shift(p.edge, func(s *Session) bool {
			if told[s.UID] {
				s.floor = nanoseconds(p.edge.Add(-p.Every))
			}
			return !told[s.UID]
		})
		p.mu.Unlock()
	}
}

// due gives what is to be said now; nil if the period isn't over.
func (p *Publisher) due() []schemas.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known || time.Until(p.edge.Add(min(settle, p.Every/30))) > 0 {
		return nil
	}
	return due(p.fold, p.edge)
}

// due counts what there is to say of a period that ended at edge, and gives it. Who only
// slept is left for later, but at midnight.
func due(f *Fold, edge time.Time) []schemas.Usage {
	due := []schemas.Usage{}
	midnight := edge.Equal(edge.UTC().Truncate(24 * time.Hour))
	f.Advance(edge, func(s *Session) bool { return s.asleep() && !midnight })
	for s := range f.Sessions {
		if a := s.In(0); a != (Amount{}) {
			due = append(due, s.usage(time.Time{}, edge, a))
		}
	}
	slices.SortFunc(due, func(a, b schemas.Usage) int { return a.From.Compare(b.From) }) // a name's sessions in their order
	return due
}

// say publishes events and gives the sessions that are spoken for.
func (p *Publisher) say(ctx context.Context, due []schemas.Usage) (told map[schemas.UID]bool, err error) {
	told = map[schemas.UID]bool{}
	for _, u := range due {
		err := p.tell(ctx, u)
		switch {
		case err == nil:
			told[u.UID] = true
		case errors.Is(err, errOverlap), ctx.Err() != nil:
			return told, err
		default:
			p.Notes.Warn("usage not published; the next event says it, too", "session", u.Name, "err", err)
		}
	}
	return told, nil
}

// eventType is the type of the events.
const eventType = "usage"

// tell publishes one event, unless another publisher has.
func (p *Publisher) tell(ctx context.Context, u schemas.Usage) error {
	n, err := schemas.ParseName(u.Name)
	if err != nil {
		return err
	}
	e := schemas.Event{
		Type: eventType, Tenant: n.Tenant, Session: n.Session, UID: u.UID, Actor: p.Actor, At: time.Now().UTC(), ID: fmt.Sprintf("%s.%d", u.UID, u.To.Unix()), Usage: &u,
		Text: fmt.Sprintf("ran %.0f s, slept %.0f s; its images take %d bytes", u.RunningSeconds, u.SuspendedSeconds, u.StoredBytes),
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode usage of %s: %w", n, err)
	}
	subject := fmt.Sprintf("%s.%s.%s", schemas.SubjectEvent, n.Key(), eventType)
	for {
		last := p.saidLast(n)
		ack, err := p.JS.Publish(ctx, subject, data, jetstream.WithExpectLastSequencePerSubject(last.seq))
		if err == nil {
			p.remember(n, said{u.UID, u.To, ack.Sequence})
			return nil
		}
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence && refused.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequenceConstant {
			return fmt.Errorf("publish %s: %w", subject, err)
		}
		there, err := p.there(ctx, n, subject)
		switch {
		case err != nil:
			return err
		case there.uid == u.UID && there.to.Equal(u.To):
			p.remember(n, there)
			return nil // an answer was lost, or another said it
		case !there.to.Before(u.To), there.uid == u.UID && there.to.After(u.From):
			return fmt.Errorf("usage of %s: %w", n, errOverlap)
		case there.seq == last.seq:
			return fmt.Errorf("publish %s: %w", subject, refused)
		}
		p.remember(n, there)
	}
}

func (p *Publisher) saidLast(n schemas.Name) said {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[n]
}

func (p *Publisher) remember(n schemas.Name, s said) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[n] = s
}

// there reads the last event of a name.
func (p *Publisher) there(ctx context.Context, n schemas.Name, subject string) (said, error) {
	s, err := p.JS.Stream(ctx, p.Names.Events())
	if err != nil {
		return said{}, fmt.Errorf("find stream %s: %w", p.Names.Events(), err)
	}
	msg, err := s.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return said{}, fmt.Errorf("read the last usage of %s: %w", n, err)
	}
	var e schemas.Event
	if err := json.Unmarshal(msg.Data, &e); err != nil || e.Usage == nil {
		return said{}, fmt.Errorf("read the last usage of %s: %s is no event of usage", n, subject)
	}
	return said{e.UID, e.Usage.To, msg.Sequence}, nil
}
