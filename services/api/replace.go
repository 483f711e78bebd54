package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// wellWithin is how long what is restored may take to be well, if nobody says otherwise.
const wellWithin = time.Minute

// replace has a snapshot take the place of what a session is now, and puts that back
// unless what came is well soon. What it is now becomes a snapshot first, and is what it
// goes back to: the record says so, so that it ends in one of the two whoever is killed
// meanwhile.
func (s *Server) replace(ctx context.Context, req schemas.Request) (any, error) {
	v, err := s.named(ctx, req)
	if err != nil {
		return nil, err
	}
	n := v.Name()
	within := cmp.Or(time.Duration(req.Within), wellWithin)
	if within < time.Millisecond || within > schemas.MaxWithin {
		return nil, schemas.UsageError("replace session %s: a trial of %s, want %s at most", n, within, schemas.Duration(schemas.MaxWithin))
	}
	target, err := s.replacement(ctx, v, req.Snapshot)
	if err != nil {
		return nil, err
	}
	req.Reason = orDefault(req.Reason, "asked to replace it by "+snapshotID(target))
	if v, err = s.suspended(ctx, n, req, "before_replace"); err != nil {
		return nil, err
	}
	if *v.Head == target {
		return nil, schemas.StateError(schemas.ReasonWrongState, "session %s is suspended at that snapshot", n).WithHint("resume it without --replace")
	}
	ch, stop := s.board.follow(n)
	defer stop()
	host, err := s.home(ctx, v, &target, nil)
	if err != nil {
		return nil, err
	}
	op, err := s.newOp(ctx, schemas.OpResume)
	if err != nil {
		return nil, err
	}
	op.Source, op.Boot, op.Fallback, op.WithinMS = &target, schemas.BootRollback, v.Head, within.Milliseconds()
	asked, err := s.ask(ctx, v, req, schemas.Transition{
		Type: schemas.TResume, Reason: req.Reason, Set: schemas.Set{Op: op, Host: host},
	})
	if err != nil {
		return nil, err
	}
	got, err := await(ctx, ch, s.untilProved(asked))
	return schemas.ViewOf(got.SessionRecord), err
}

// replacement gives the snapshot that is to take a session's place: the one that is named,
// or its last one.
func (s *Server) replacement(ctx context.Context, v statekv.Versioned, id string) (schemas.Head, error) {
	n := v.Name()
	switch {
	case v.State == schemas.Exited || v.State == schemas.Failed:
		return schemas.Head{}, schemas.StateError(schemas.ReasonWrongState, "session %s is %s: there is nothing to replace", n, v.State).WithHint("`diapause rollback %s SNAPSHOT` goes on from a snapshot", n)
	case id != "":
		l, err := s.find(ctx, v, id)
		return l.Head, err
	case v.State == schemas.Suspending || v.State == schemas.Suspended:
		return schemas.Head{}, schemas.StateError(schemas.ReasonWrongState, "session %s is %s: no snapshot is named to replace it", n, v.State).WithHint("name one with --snapshot, or resume it without --replace")
	case v.Head == nil:
		return schemas.Head{}, schemas.StateError(schemas.ReasonNoSnapshot, "session %s has no snapshot that could take its place", n)
	}
	return *v.Head, nil
}

// untilProved waits for what took a session's place to be well, or for what it was to be
// back.
func (s *Server) untilProved(asked statekv.Versioned) func(statekv.Versioned) (outcome, error) {
	runs := s.untilRunning(asked)
	return func(v statekv.Versioned) (outcome, error) {
		if v.State == schemas.Running && v.Op != nil { // it is being looked at, or ended by somebody else
			return pending, nil
		}
		got, err := runs(v)
		if err != nil || got == pending || v.State != schemas.Running || v.Head == nil || *v.Head != *asked.Op.Fallback {
			return got, err
		}
		if v.Failure == nil || v.Failure.Op != schemas.OpProve {
			return done, schemas.FailedError(schemas.ReasonFellBack, "session %s runs as it was: snapshot %s, which took its place, isn't well", v.Name(), snapshotID(*asked.Op.Source))
		}
		return done, schemas.FailedError(schemas.ReasonFellBack, "session %s runs as it was, from snapshot %s: %s", v.Name(), snapshotID(*v.Head), v.Failure.Text)
	}
}

// notBegun says what a session was busy with, to who waited for that in vain.
func notBegun(v statekv.Versioned, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || v.Op == nil {
		return err
	}
	return timeout(fmt.Sprintf("session %s: %s; what was asked for has not started", v.Name(), v.Underway()))
}
