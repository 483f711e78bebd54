package api

import (
	"context"
	"errors"
	"time"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
)

// mover answers the verb that takes a session to another host. Once it has asked for that, the
// workers of the two hosts do all of it.
type mover struct {
	sessions *sessions
	hosts    *placement
	rooms    *rooms
	resumes  *resumer
	board    *board
	orders   *hostkv.Cache
}

func (s *mover) move(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.sessions.get(ctx, n)
		if err != nil {
			return nil, err
		}
		if err := mayCarry(req.by, v.SessionRecord); err != nil {
			return nil, err
		}
		var asked statekv.Versioned
		switch {
		case v.State == schemas.Running && v.Op == nil, v.State == schemas.Suspended && v.Op == nil:
			var made []string
			asked, made, err = s.begin(ctx, v, req)
			if errors.Is(err, statekv.ErrConflict) {
				continue
			}
			if err != nil {
				return nil, err
			}
			view, err := s.arrive(ctx, v, asked, ch)
			view.MadeRoom = made
			return view, err
		case v.State == schemas.Exited, v.State == schemas.Failed:
			return nil, schemas.StateError(reasonIn(v.State), "session %s is %s: there is nothing to move", n, v.State)
		case v.State == schemas.Running || v.Op != nil && v.Op.Move != nil:
			return nil, schemas.StateError(schemas.ReasonBusy, "session %s: %s", n, v.Underway()).WithHint("try again when `diapause show %s` says that it is over", n)
		}
		// It starts, resumes or is being suspended: look again when that is over.
		if _, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) { return when(w.Version > v.Version), nil }); err != nil {
			return nil, stillBusy(v, err)
		}
	}
}

// begin chooses the host and asks for the move. It gives the sessions that made room there.
func (s *mover) begin(ctx context.Context, v statekv.Versioned, req request) (asked statekv.Versioned, made []string, err error) {
	w, err := s.want(ctx, v, req)
	if err != nil {
		return asked, nil, err
	}
	at, err := s.rooms.find(ctx, w, req.by)
	if err != nil {
		return asked, nil, err
	}
	defer at.release(statekv.Revision{})
	op, err := s.sessions.newOp(ctx, schemas.OpSuspend)
	if err != nil {
		return asked, nil, err
	}
	op.Move = &schemas.Move{From: v.Host, To: at.host, Asleep: v.State == schemas.Suspended}
	op.Trigger = string(schemas.PauseMove)
	t := schemas.Transition{
		Type: schemas.TSuspend, Reason: "asked to move to host " + string(at.host),
		Set: schemas.Set{Op: op, Pause: &schemas.Pause{Reason: schemas.PauseMove, At: time.Now().UTC()}},
	}
	if v.State == schemas.Suspended {
		op.Kind, op.Source, op.Boot = schemas.OpResume, v.Head, session.BootOf(v.SessionRecord)
		t.Type, t.Set = schemas.TResume, schemas.Set{Op: op, Host: at.host}
	}
	if asked, err = s.sessions.ask(ctx, v, req, t); err == nil {
		at.release(asked.Rev)
	}
	return asked, at.made, err
}

// want says what the session needs of the host that it moves to, or why it may not move.
func (s *mover) want(ctx context.Context, v statekv.Versioned, req request) (w fleet.Want, err error) {
	n := v.Name()
	switch {
	case req.Host == v.Host:
		return w, schemas.StateError(schemas.ReasonSameHost, "session %s is on host %s already", n, v.Host)
	case req.Host != "" && s.orders.Order(req.Host).Cordoned:
		return w, schemas.StateError(schemas.ReasonCordoned, "host %s is cordoned: it takes no sessions", req.Host).WithHint("`diapause host uncordon %s` ends that", req.Host)
	case v.Archived != nil:
		return w, inArchive(v)
	case v.State == schemas.Suspended && v.Head == nil:
		return w, schemas.StateError(schemas.ReasonNoSnapshot, "session %s is suspended and has no snapshot", n).WithHint("%s", startAgain(n))
	}
	if err := notAdopted(v, "moved"); err != nil {
		return w, err
	}
	if err := s.hosts.stranded(v); err != nil && v.State == schemas.Running {
		return w, err
	}
	hosts, err := s.hosts.fleet.Hosts(ctx)
	if err != nil {
		return w, err
	}
	w, why := fleet.WantOfMove(hosts, v.SessionRecord)
	if v.State == schemas.Suspended { // its host has no part in it
		w.Need, err = s.hosts.needOf(ctx, n, *v.Head)
	} else if why != "" {
		err = schemas.FailedError(schemas.ReasonNoHost, "move session %s: %s", n, why)
	}
	w.Only = req.Host
	return w, err
}

// arrive waits until the session runs where it was to go, and says how long it stood still.
func (s *mover) arrive(ctx context.Context, was, asked statekv.Versioned, ch <-chan statekv.Versioned) (view schemas.View, err error) {
	n, to := asked.Name(), asked.Op.Move.To
	var clock standstill
	got, err := await(ctx, ch, func(v statekv.Versioned) (outcome, error) {
		if v.Version <= asked.Version {
			return pending, nil
		}
		clock.see(v)
		switch {
		case v.State == schemas.Suspending, v.State == schemas.Resuming, v.State == schemas.Suspended && v.Op != nil, v.State == schemas.Running && begins(v):
			return pending, nil
		case v.State == schemas.Running && v.Host == to && v.Generation > was.Generation:
			return done, nil
		case v.State == schemas.Running && v.Failure != nil && v.Failure.Op == schemas.OpMove:
			return done, schemas.FailedError(schemas.ReasonFellBack, "session %s runs on host %s: %s", n, v.Host, v.Failure.Of(n)).WithHint("%s", v.Failure.Hint)
		case v.State == schemas.Running && v.Generation == was.Generation:
			return done, schemas.FailedError(schemas.ReasonRunsOn, "session %s runs on where it was: %s", n, schemas.About(n, v.Transition.Reason))
		case v.State == schemas.Running:
			return done, schemas.FailedError(schemas.ReasonFellBack, "session %s runs on host %s: host %s was lost meanwhile", n, v.Host, to)
		case v.Failure != nil:
			return done, schemas.FailedError("", "%s", v.Failure.Of(n)).WithHint("%s", v.Failure.Hint)
		}
		return done, schemas.StateError(reasonAfter(v.State), "session %s is %s: %s", n, v.State, schemas.About(n, v.Transition.Reason))
	})
	if err != nil {
		return view, err
	}
	view = schemas.ViewOf(got.SessionRecord)
	view.Moved = &schemas.Moved{From: was.Host, To: to, FrozenMS: clock.frozen.Milliseconds()}
	return view, nil
}

// standstill measures how long a session stood still, from its revisions. Their times are those
// of the NATS server, which is one clock, unlike those of two hosts.
type standstill struct {
	from   time.Time
	frozen time.Duration
}

func (c *standstill) see(v statekv.Versioned) {
	switch v.Transition.Type {
	case schemas.TSuspended:
		c.from = v.Stored.Add(-frozenFor(v.Transition))
	case schemas.TResumed:
		if !c.from.IsZero() && !v.Stored.IsZero() {
			c.frozen = v.Stored.Sub(c.from)
		}
	}
}
