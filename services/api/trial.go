package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// trials answers the verbs about a snapshot that is to take a running session's place.
type trials struct {
	sessions  *sessions
	hosts     *placement
	captures  *capturer
	snapshots *snapshots
	board     *board
}

// accept ends the time in which what took a session's place has to get well: it stays.
func (s *trials) accept(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	for {
		v, err := s.onTrial(ctx, n)
		if err != nil {
			return nil, err
		}
		t := schemas.Transition{Type: schemas.TProved, Reason: "accepted before it was known to be well", Op: v.Op.ID}
		v, err = s.sessions.ask(ctx, v, req, t)
		if !errors.Is(err, statekv.ErrConflict) {
			return schemas.ViewOf(v.SessionRecord), err
		}
	}
}

// reject ends that time the other way: what the session was comes back.
func (s *trials) reject(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.onTrial(ctx, n)
		if err != nil {
			return nil, err
		}
		if err := s.hosts.stranded(v); err != nil {
			return nil, err
		}
		op, err := s.sessions.newOp(ctx, schemas.OpResume)
		if err != nil {
			return nil, err
		}
		was := v.SessionRecord
		was.Head = v.Op.Fallback
		op.Source, op.Boot = v.Op.Fallback, session.BootOf(was)
		text := fmt.Sprintf("snapshot %s took its place and was rejected by %s", snapshotID(*v.Head), req.by)
		if req.Reason != "" {
			text += ": " + req.Reason
		}
		f := &schemas.Failure{Op: schemas.OpProve, Count: 1, At: time.Now().UTC(), Text: text}
		v, err = s.sessions.ask(ctx, v, req, schemas.Transition{Type: schemas.TFellBack, Reason: "the replacement was rejected", Set: schemas.Set{Op: op, Failure: f}})
		if errors.Is(err, statekv.ErrConflict) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v, err = await(ctx, ch, s.sessions.untilRunning(v))
		return schemas.ViewOf(v.SessionRecord), err
	}
}

// onTrial reads a session in whose place something runs that has yet to get well.
func (s *trials) onTrial(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	v, err := s.sessions.get(ctx, n)
	switch {
	case err != nil:
		return v, err
	case v.State == schemas.Resuming && v.Op != nil && v.Op.Fallback != nil:
		return v, schemas.StateError(schemas.ReasonBusy, "session %s is resuming", n).WithHint("try again when `diapause show %s` says that it runs", n)
	case v.State != schemas.Running || v.Op == nil || v.Op.Kind != schemas.OpProve || v.Op.Fallback == nil || v.Head == nil:
		return v, schemas.StateError(schemas.ReasonWrongState, "session %s is %s and no replacement is on trial", n, v.State)
	}
	return v, nil
}

// wellWithin is how long what is restored may take to be well, by default.
const wellWithin = time.Minute

// replace has a snapshot take the place of what a session is now, and puts that back
// unless what came is well soon. What it is now becomes a snapshot first, and is what it
// goes back to: the record says so, so that it ends in one of the two no matter what is killed
// meanwhile.
func (s *trials) replace(ctx context.Context, req request) (any, error) {
	v, err := s.sessions.named(ctx, req)
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
	if v, err = s.captures.suspended(ctx, n, req, "before_replace"); err != nil {
		return nil, err
	}
	if *v.Head == target {
		return nil, schemas.StateError(schemas.ReasonWrongState, "session %s is suspended at that snapshot", n).WithHint("resume it without --replace")
	}
	ch, stop := s.board.follow(n)
	defer stop()
	host, err := s.hosts.next(ctx, v, &target, nil)
	if err != nil {
		return nil, err
	}
	op, err := s.sessions.newOp(ctx, schemas.OpResume)
	if err != nil {
		return nil, err
	}
	op.Source, op.Boot, op.Fallback, op.WithinMS = &target, schemas.BootRollback, v.Head, within.Milliseconds()
	asked, err := s.sessions.ask(ctx, v, req, schemas.Transition{
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
func (s *trials) replacement(ctx context.Context, v statekv.Versioned, id string) (schemas.Head, error) {
	n := v.Name()
	switch {
	case v.State == schemas.Exited || v.State == schemas.Failed:
		return schemas.Head{}, schemas.StateError(schemas.ReasonWrongState, "session %s is %s: there is nothing to replace", n, v.State).WithHint("`diapause rollback %s SNAPSHOT` goes on from a snapshot", n)
	case id != "":
		l, err := s.snapshots.find(ctx, v, id)
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
func (s *trials) untilProved(asked statekv.Versioned) func(statekv.Versioned) (outcome, error) {
	runs := s.sessions.untilRunning(asked)
	return func(v statekv.Versioned) (outcome, error) {
		if v.State == schemas.Running && v.Op != nil { // it is being looked at, or another ended it
			return pending, nil
		}
		got, err := runs(v)
		if err != nil || got == pending || v.State != schemas.Running || v.Head == nil || *v.Head != *asked.Op.Fallback {
			return got, err
		}
		if v.Failure == nil || v.Failure.Op != schemas.OpProve {
			return done, schemas.FailedError(schemas.ReasonFellBack, "session %s runs as it was: snapshot %s isn't well", v.Name(), snapshotID(*asked.Op.Source))
		}
		return done, schemas.FailedError(schemas.ReasonFellBack, "session %s runs as it was, from snapshot %s: %s", v.Name(), snapshotID(*v.Head), schemas.About(v.Name(), v.Failure.Text))
	}
}

// stillBusy adds to a timeout what the session was busy with.
func stillBusy(v statekv.Versioned, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || v.Op == nil {
		return err
	}
	return timeout(fmt.Sprintf("session %s: %s; what was asked for has not started", v.Name(), v.Underway()))
}
