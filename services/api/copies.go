package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// fork makes a second session from the memory and files of the first, which
// goes on undisturbed but for a checkpoint if it runs. It is kept as the first is: all that
// was said when that was run holds for it. A policy of that session's scope names its uid,
// so it doesn't, and leases are what somebody said of the first.
func (s *Server) fork(ctx context.Context, req schemas.Request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	to, err := name(req.To)
	if err != nil {
		return nil, err
	}
	if to.Tenant != n.Tenant {
		return nil, schemas.UsageError("fork session %s to %s: the tenants differ", n, to)
	}
	if to == n {
		return nil, schemas.StateError(schemas.ReasonExists, "fork session %s: the copy has the same name", n).WithHint("give the copy another name")
	}
	if err := s.free(ctx, to); err != nil {
		return nil, err
	}
	v, err := s.captured(ctx, n, req)
	if err != nil {
		return nil, err
	}
	if err := s.Failpoints.At(ctx, failpoint.APIForkHead); err != nil {
		return nil, err
	}
	op, err := s.newOp(ctx, schemas.OpResume)
	if err != nil {
		return nil, err
	}
	op.Source, op.Boot = v.Head, schemas.BootFork
	fresh := schemas.NewSession{
		Class: v.Class, Driver: v.Driver, MadeBy: v.MadeBy, Program: v.Program, Spec: v.Spec, TTY: v.TTY, OnLoss: v.OnLoss, OnBreaker: v.OnBreaker,
	}
	t := schemas.Transition{
		Type: schemas.TForkNew, Reason: "fork of " + n.String() + " at " + snapshotID(*v.Head),
		Set: schemas.Set{Op: op, Idle: v.Idle, Head: v.Head, Size: v.Size},
	}
	return s.create(ctx, to, req, fresh, t, func(fork statekv.Versioned) error { return s.stillThere(ctx, req, v, fork) })
}

// free refuses a name that is taken, before anything is done for it.
func (s *Server) free(ctx context.Context, n schemas.Name) error {
	v, err := s.Records.Get(ctx, n)
	if errors.Is(err, statekv.ErrNoSession) || err == nil && v.State == schemas.Deleted {
		return nil
	}
	if err != nil {
		return err
	}
	return schemas.StateError(schemas.ReasonExists, "session %s exists and is %s", n, v.State).WithHint("give the copy another name, or remove that one with `diapause rm %s`", n)
}

// captured gives the record of a session whose head is as it is now: a running
// one is checkpointed first.
func (s *Server) captured(ctx context.Context, n schemas.Name, req schemas.Request) (statekv.Versioned, error) {
	v, err := s.get(ctx, n)
	if err != nil {
		return v, err
	}
	if v.State == schemas.Running {
		return s.checkpointed(ctx, n, req, "fork")
	}
	if v.State != schemas.Suspended || v.Head == nil {
		return v, schemas.StateError(schemas.ReasonWrongState, "fork session %s: it is %s, neither running nor suspended", n, v.State)
	}
	return v, nil
}

// stillThere undoes a fork whose origin, or the snapshot that it begins from, was
// deleted while it was made: its images may be gone.
func (s *Server) stillThere(ctx context.Context, req schemas.Request, origin, fork statekv.Versioned) error {
	if err := s.Failpoints.At(ctx, failpoint.APIForkMade); err != nil {
		return err
	}
	now, err := s.get(ctx, origin.Name())
	gone := false
	if err == nil && now.UID == origin.UID {
		gone, err = image.Marked(ctx, s.Images, *fork.Head)
	} else if err == nil {
		err = schemas.StateError(schemas.ReasonDeleted, "fork session %s: it was deleted and made again meanwhile", origin.Name())
	}
	if gone {
		err = schemas.StateError(schemas.ReasonDeleted, "fork session %s: its snapshot was deleted meanwhile", origin.Name()).WithHint("try again")
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, s.unmake(ctx, req, fork))
}

// unmake removes a fork that has nothing to begin from, whatever its host has done
// about it meanwhile.
func (s *Server) unmake(ctx context.Context, req schemas.Request, fork statekv.Versioned) error {
	for {
		op, err := s.newOp(ctx, schemas.OpRemove)
		if err != nil {
			return err
		}
		t := schemas.Transition{Type: schemas.TRemove, Reason: "what it was forked from was deleted", Set: schemas.Set{Op: op}}
		if _, err = s.ask(ctx, fork, req, t); !errors.Is(err, statekv.ErrConflict) {
			return err
		}
		now, err := s.Records.Get(ctx, fork.Name())
		if err != nil || now.UID != fork.UID || now.State == schemas.Deleted {
			return err
		}
		fork = now
	}
}

// rollback takes a session back to one of its snapshots, memory and files
// together. What it is now becomes a snapshot first.
func (s *Server) rollback(ctx context.Context, req schemas.Request) (any, error) {
	v, err := s.named(ctx, req)
	if err != nil {
		return nil, err
	}
	n := v.Name()
	target, err := s.find(ctx, v, req.Snapshot)
	if err != nil {
		return nil, err
	}
	req.Reason = orDefault(req.Reason, "roll back to "+req.Snapshot)
	if v.State != schemas.Exited && v.State != schemas.Failed {
		if v, err = s.suspended(ctx, n, req, "before_rollback"); err != nil {
			return nil, err
		}
	}
	ch, stop := s.board.follow(n)
	defer stop()
	v, err = s.askResume(ctx, v, req, target.Head, schemas.BootRollback, ch)
	return schemas.ViewOf(v.SessionRecord), err
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// find gives the snapshot of a session's lineage with that id.
func (s *Server) find(ctx context.Context, v statekv.Versioned, id string) (image.Listed, error) {
	all, err := s.listed(ctx, v)
	if err != nil {
		return image.Listed{}, err
	}
	for _, l := range all {
		if snapshotID(l.Head) != id {
			continue
		}
		if l.Err != nil {
			return l, schemas.FailedError(schemas.ReasonUnreadable, "use snapshot %s of session %s: %v", id, v.Name(), l.Err)
		}
		return l, nil
	}
	return image.Listed{}, schemas.UsageError("session %s has no snapshot %q", v.Name(), id).WithHint("`diapause snapshots %s` lists them", v.Name())
}

func (s *Server) snapshots(ctx context.Context, req schemas.Request) (any, error) {
	v, err := s.named(ctx, req)
	if err != nil {
		return nil, err
	}
	all, err := s.listed(ctx, v)
	if err != nil {
		return nil, err
	}
	said, err := s.told(ctx, v.Name())
	if err != nil {
		return nil, err
	}
	out := []schemas.SnapshotView{}
	for _, l := range all {
		view := schemas.SnapshotView{ID: snapshotID(l.Head), Head: v.Head != nil && *v.Head == l.Head}
		view.By, view.Reason, view.Restores = said[l.Head].by, said[l.Head].reason, said[l.Head].restores
		if l.Err != nil {
			view.Error = l.Err.Error()
		} else {
			h := l.Header
			view.At, view.LogicalBytes, view.NewBytes, view.StoredBytes = h.Time, h.LogicalBytes, h.NewBytes, h.StoredBytes
			view.Trigger, view.Description, view.RunID = h.Trigger, h.Description, h.RunID
		}
		out = append(out, view)
	}
	return out, nil
}

func (s *Server) snapshotRemove(ctx context.Context, req schemas.Request) (any, error) {
	v, err := s.named(ctx, req)
	if err != nil {
		return nil, err
	}
	n := v.Name()
	l, err := s.find(ctx, v, req.Snapshot)
	if err != nil {
		return nil, err
	}
	err = image.DeleteSnapshot(ctx, s.Images, v.Tenant, v.Lineage, l.Head.Name, s.known(), func(ctx context.Context) (bool, error) {
		return s.unused(ctx, v.UID, l.Head)
	})
	if errors.Is(err, image.ErrInUse) {
		return nil, schemas.StateError(schemas.ReasonInUse, "snapshot %s of session %s is in use", req.Snapshot, n).WithHint("a session goes on from it, or an operation of session %s is under way", n)
	}
	if err != nil {
		return nil, fmt.Errorf("delete snapshot %s of session %s: %w", req.Snapshot, n, err)
	}
	e := schemas.Event{Type: "image_deleted", Tenant: n.Tenant, Session: n.Session, UID: v.UID,
		Text: "snapshot " + req.Snapshot + " was deleted", Actor: orDefault(req.Actor, "client"), At: time.Now().UTC()}
	if err := s.publish.Event(ctx, e); err != nil {
		s.Log.Warn("event not published", "err", err)
	}
	return schemas.ViewOf(v.SessionRecord), nil
}

// unused reports whether no session goes on from a snapshot, and nothing is being
// done to the one that it is of.
func (s *Server) unused(ctx context.Context, of schemas.UID, head schemas.Head) (bool, error) {
	all, err := s.Records.All(ctx)
	if err != nil {
		return false, err
	}
	for _, v := range all {
		if v.State != schemas.Deleted && (v.PointsAt(head) || v.UID == of && v.Op != nil) {
			return false, nil
		}
	}
	return true, nil
}
