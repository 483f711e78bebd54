package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recovery"
)

// errMoved says that the record no longer asks for what is being done.
var errMoved = errors.New("its record has moved on")

// recorder writes what becomes of sessions: their records, events, and how far an op is.
type recorder struct {
	host    schemas.HostID
	records Records
	bus     Bus
	ledger  *recovery.Ledger // may be nil
	log     *slog.Logger
}

// swap makes a transition that belongs to rec's op. If someone else has changed the record
// without changing uid, epoch or op, it is made on top of that; else it is errMoved.
func (r *recorder) swap(ctx context.Context, rec statekv.Versioned, t schemas.Transition) (statekv.Versioned, error) {
	t.Actor = r.actor()
	if rec.Op != nil {
		t.Op = rec.Op.ID
	}
	for {
		next, err := r.records.Swap(ctx, rec, t)
		if err == nil {
			r.remember(next.SessionRecord)
		}
		if !errors.Is(err, statekv.ErrConflict) {
			return next, err
		}
		now, err := r.records.Get(ctx, rec.Name())
		if err != nil {
			return statekv.Versioned{}, err
		}
		if !sameWork(now.SessionRecord, rec.SessionRecord) {
			return statekv.Versioned{}, movedTo(now)
		}
		rec = now
	}
}

func (r *recorder) actor() string { return "worker@" + string(r.host) }

// movedTo is errMoved with what the record says now.
func movedTo(now statekv.Versioned) error {
	return fmt.Errorf("session %s: %w: now %s, epoch %d", now.Name(), errMoved, now.State, now.Epoch)
}

func sameWork(a, b schemas.SessionRecord) bool {
	return a.UID == b.UID && a.Epoch == b.Epoch && a.Host == b.Host && opID(a) == opID(b)
}

func opID(r schemas.SessionRecord) string {
	if r.Op == nil {
		return ""
	}
	return r.Op.ID
}

// goOn records that a session which froze by itself is still this host's, before it is
// thawed: a host that was taking it over loses to that, or this one to that host.
func (r *recorder) goOn(ctx context.Context, rec *statekv.Versioned) error {
	next, err := r.swap(ctx, *rec, schemas.Transition{
		Type: schemas.TKept, Reason: "it stood still by itself while its host's lease wasn't renewed, and goes on",
	})
	if err == nil {
		*rec = next
	}
	return err
}

// remember has the host's ledger keep a record, if it has one.
func (r *recorder) remember(rec schemas.SessionRecord) {
	if r.ledger == nil {
		return
	}
	if err := r.ledger.Keep(rec); err != nil {
		r.log.Warn("could not keep a record: should NATS lose it, it is lost", rec.Logged("err", err)...)
	}
}

// event publishes what happened; losing one is logged, and stops nothing.
func (r *recorder) event(ctx context.Context, rec schemas.SessionRecord, kind, format string, args ...any) {
	e := schemas.Event{
		Type: kind, Tenant: rec.Tenant, Session: rec.Session, UID: rec.UID, Op: opID(rec),
		Text: fmt.Sprintf(format, args...), Actor: r.actor(), At: time.Now().UTC(),
	}
	if err := r.bus.Event(ctx, e); err != nil {
		r.log.Warn("could not publish an event", rec.Logged("event", e.Text, "err", err)...)
	}
}

// failure describes err for the record. count is how often it has failed in a row, this time
// included.
func failure(kind string, err error, count int) *schemas.Failure {
	text, hint := driver.HintOf(err)
	return &schemas.Failure{Text: text, Hint: hint, Op: kind, Kind: string(driver.KindOf(err)), Count: count, At: time.Now().UTC()}
}
