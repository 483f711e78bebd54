package lease

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// OfficeTerm is how long an office is held after a renewal, unless configured: a
// candidate takes over after that and a margin.
const OfficeTerm = 4 * time.Second

// OfficeTermAlone is the term of a holder whose process is the NATS server, too: no other can
// take over before that is back, and then its holder is, who takes its own office at once.
const OfficeTermAlone = 30 * time.Second

// Office is a lease that one of several processes holds at a time. It is for
// efficiency: two may believe for a moment that they hold it, so the holder's actions
// have to be harmless if two do them.
type Office struct {
	Store *Store // by OpenOffice
	// Holder is who would have it. A process of the same name that comes later takes over
	// at once: it is the same after a restart, and no two that run have the same.
	Holder schemas.HostID
	Term   time.Duration // OfficeTerm if zero
	Log    *slog.Logger

	by   string // this process
	held Versioned
	seen Seen
}

// OpenOffice finds the bucket of an office's lease.
func OpenOffice(ctx context.Context, js jetstream.JetStream, names stream.Names, office string) (*Store, error) {
	s, err := Open(ctx, js, names)
	if err != nil {
		return nil, err
	}
	s.subject = func(schemas.HostID) string { return names.OfficeSubject(office) }
	return s, nil
}

func (o *Office) term() time.Duration {
	if o.Term > 0 {
		return o.Term
	}
	return OfficeTerm
}

// Serve takes the office when it is free, renews it, and calls tell, from its own
// goroutine, whenever that changes, until ctx ends; then it is given back, so that who
// stands by need not wait. A holder that can't renew it stays one until it sees another:
// a slow server must not leave the office without a holder.
func (o *Office) Serve(ctx context.Context, tell func(held bool)) error {
	o.by = string(o.Holder) + "." + nuid.Next()
	told := false
	for first := true; ; first = false {
		held := o.step(ctx, first)
		if held != told && ctx.Err() == nil {
			told = held
			tell(held)
		}
		wait := o.term() / 8
		if held {
			wait = renewEvery(o.term())
		}
		select {
		case <-ctx.Done():
			o.giveBack(ctx)
			return nil
		case <-time.After(wait):
		}
	}
}

// step renews what is held, or takes what is free. It reports whether the office is
// held.
func (o *Office) step(ctx context.Context, first bool) bool {
	ctx, cancel := context.WithTimeout(ctx, renewEvery(o.term()))
	defer cancel()
	var err error
	if o.held.Rev > 0 {
		err = o.renew(ctx)
	} else {
		err = o.stand(ctx, first)
	}
	if err != nil && ctx.Err() == nil {
		o.Log.Debug("the lease of the office can't be read or written", "holder", o.Holder, "err", err)
	}
	return o.held.Rev > 0
}

func (o *Office) renew(ctx context.Context) error {
	next, err := o.Store.swap(ctx, o.held, renewed(o.held.HostLease))
	if err == nil {
		o.held = next
		return nil
	}
	if !errors.Is(err, cas.ErrConflict) {
		return err
	}
	found, err := o.Store.Get(ctx, o.Holder)
	if err != nil {
		return err
	}
	o.held = Versioned{}
	if found.By == o.by && found.State == schemas.LeaseHeld {
		o.held = found // a write of our own whose answer was lost
	} else if found.Rev > 0 {
		o.Log.Warn("another has taken over", "from", o.Holder, "by", found.By)
	}
	return nil
}

// stand takes the office if it is free.
func (o *Office) stand(ctx context.Context, first bool) error {
	found, err := o.Store.Get(ctx, o.Holder)
	if err != nil {
		return err
	}
	verdict := Live
	o.seen, verdict = Judge(o.seen, found, Now(), o.term())
	if found.Rev > 0 && verdict == Live && !(first && found.Host == o.Holder) {
		return nil
	}
	next, err := o.Store.swap(ctx, found, schemas.HostLease{
		Host: o.Holder, Incarnation: found.Incarnation + 1, TermMS: o.term().Milliseconds(), State: schemas.LeaseHeld, By: o.by,
	})
	if errors.Is(err, cas.ErrConflict) {
		return nil // another was quicker
	}
	if err != nil {
		return err
	}
	o.held = next
	return nil
}

// giveBack ends what is held. Failing that it runs out.
func (o *Office) giveBack(ctx context.Context) {
	if o.held.Rev == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEvery(o.term()))
	defer cancel()
	next := o.held.HostLease
	next.State = schemas.LeaseExpired
	_, _ = o.Store.swap(ctx, o.held, next)
	o.held = Versioned{}
}
