package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// leaver suspends what runs on a host that is shut down, and resumes it when the host is up again.
type leaver struct {
	host     schemas.HostID
	claim    string // of this process
	js       jetstream.JetStream
	names    stream.Names
	recorder *recorder
	log      *slog.Logger

	leaving atomic.Bool // nothing begins to run here any more
}

// departure is what a session of a host that is shut down needs.
type departure int

const (
	departed   departure = iota // nothing of it will be lost, or nothing can be done
	departing                   // it is on its way, or what is under way ends first
	toSuspend                   // it is to be suspended
	leftBehind                  // it couldn't be suspended
)

// depart decides about one session. tried says that it was to be suspended before.
func (l *leaver) depart(r schemas.SessionRecord, tried bool) departure {
	switch {
	case r.Host != l.host:
		return departed
	case r.State == schemas.Suspending:
		return departing
	case r.State == schemas.Starting, r.State == schemas.Resuming:
		if l.holds(r) { // it begins when the host is up again
			return departed
		}
		return departing
	case r.State != schemas.Running, toBeProved(r): // what is to be proved is put back to what it was before
		return departed
	case r.Op != nil:
		return departing
	case tried:
		return leftBehind
	}
	return toSuspend
}

// holds reports whether an op doesn't begin, since the host is shut down.
func (l *leaver) holds(r schemas.SessionRecord) bool {
	return l.leaving.Load() && r.Op != nil && r.Op.Claim != l.claim && (r.Op.Kind == schemas.OpStart || r.Op.Kind == schemas.OpResume)
}

// leave suspends all that runs here, and returns when that is done or ctx ends. moving is called when
// a session got further. The names are of those that couldn't be suspended.
func (l *leaver) leave(ctx context.Context, moving func()) (left []string, err error) {
	l.leaving.Store(true)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var (
		waiting  = map[schemas.UID]bool{}
		tried    = map[schemas.UID]bool{}
		behind   = map[schemas.UID]string{}
		caughtUp bool
	)
	follow := func(v statekv.Versioned) {
		delete(waiting, v.UID)
		delete(behind, v.UID)
		switch l.depart(v.SessionRecord, tried[v.UID]) {
		case toSuspend:
			tried[v.UID], waiting[v.UID] = true, true
			if err := l.suspend(watching, v); err != nil && !errors.Is(err, errMoved) && !errors.Is(err, session.ErrIllegal) && watching.Err() == nil {
				l.log.Error("a session can't be suspended before the host shuts down", v.Logged("err", err)...)
				delete(waiting, v.UID)
				behind[v.UID] = v.Name().String()
			}
		case departing:
			waiting[v.UID] = true
		case leftBehind:
			behind[v.UID] = v.Name().String()
		case departed:
		}
		if v.Host == l.host {
			moving()
		}
		if caughtUp && len(waiting) == 0 {
			stop()
		}
	}
	err = l.recorder.records.Watch(watching, follow, func() {
		if caughtUp = true; len(waiting) == 0 {
			stop()
		}
	})
	for _, name := range behind {
		left = append(left, name)
	}
	if len(waiting) > 0 && err == nil {
		err = fmt.Errorf("%d sessions are still being suspended: %w", len(waiting), context.Cause(ctx))
	}
	return left, err
}

// suspend begins the suspend of a session. Activity doesn't undo it: it ends with the machine else.
func (l *leaver) suspend(ctx context.Context, v statekv.Versioned) error {
	seq, err := stream.LastActivity(ctx, l.js, l.names)
	if err != nil {
		return err
	}
	now := time.Now()
	op := schemas.NewOp(schemas.OpSuspend, seq, now)
	op.Trigger = string(schemas.PauseShutdown)
	_, err = l.recorder.swap(ctx, v, schemas.Transition{
		Type: schemas.TSuspend, Op: op.ID, Evidence: &schemas.Evidence{Seq: seq}, Reason: "host " + string(l.host) + " shuts down",
		Set: schemas.Set{Op: op, Pause: &schemas.Pause{Reason: schemas.PauseShutdown, At: now.UTC()}},
	})
	return err
}

// comesBack reports whether a session sleeps because this host was shut down. If its resume failed
// it isn't tried once more.
func (l *leaver) comesBack(r schemas.SessionRecord) bool {
	return !l.leaving.Load() && r.Host == l.host && r.State == schemas.Suspended && r.Op == nil && r.Failure == nil &&
		r.Head != nil && r.Pause != nil && r.Pause.Reason == schemas.PauseShutdown
}

// comeBack begins the resume of a session that sleeps because this host was shut down.
func (l *leaver) comeBack(ctx context.Context, rec *statekv.Versioned) error {
	if !l.comesBack(rec.SessionRecord) {
		return nil
	}
	op, err := l.resumption(ctx, rec.Head, session.BootOf(rec.SessionRecord))
	if err != nil {
		return err
	}
	next, err := l.recorder.swap(ctx, *rec, schemas.Transition{
		Type: schemas.TResume, Op: op.ID, Reason: "host " + string(l.host) + " is up again", Set: schemas.Set{Op: op, Host: l.host},
	})
	if errors.Is(err, errMoved) || errors.Is(err, session.ErrIllegal) {
		return nil // something else was decided about it
	}
	if err == nil {
		*rec = next
	}
	return err
}

// takeBack has a session that is resumed from its last snapshot when its host is lost go on from
// that here: the machine was restarted under it.
func (l *leaver) takeBack(ctx context.Context, rec *statekv.Versioned) error {
	from := rec.Head
	if rec.Op != nil && rec.Op.Fallback != nil { // what took its place was never seen to be well
		from = rec.Op.Fallback
	}
	op, err := l.resumption(ctx, from, schemas.BootTakeover)
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("host %s was restarted: it goes on from its last snapshot", l.host)
	if rec.Size != nil && from == rec.Head {
		reason += fmt.Sprintf(", which is %s old", time.Since(rec.Size.At).Round(time.Second))
	}
	next, err := l.recorder.records.Swap(ctx, *rec, schemas.Transition{
		Type: schemas.TTakenOver, Actor: l.recorder.actor(), Op: op.ID, Reason: reason,
		Set: schemas.Set{Host: l.host, Op: op, Pause: &schemas.Pause{Reason: schemas.PauseHost, At: time.Now().UTC()}},
	})
	if err != nil {
		return err
	}
	l.recorder.remember(next.SessionRecord)
	*rec = next
	return nil
}

func (l *leaver) resumption(ctx context.Context, from *schemas.Head, boot schemas.Boot) (*schemas.Op, error) {
	seq, err := stream.LastActivity(ctx, l.js, l.names)
	if err != nil {
		return nil, err
	}
	op := schemas.NewOp(schemas.OpResume, seq, time.Now())
	op.Source, op.Boot = from, boot
	return op, nil
}

// Leave suspends all sessions of this host, which shuts down, while Serve runs, and returns when that is done
// or ctx ends. Nothing begins to run here any more. The next worker of this host resumes them. moving is
// called when a session got further. The names are of those that couldn't be suspended.
func (w *Worker) Leave(ctx context.Context, moving func()) (left []string, err error) {
	return w.leaver.leave(ctx, moving)
}
