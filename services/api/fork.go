package api

import (
	"context"
	"errors"
	"slices"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// fork makes a second session from the memory and files of the first, which
// goes on undisturbed but for a checkpoint if it runs. It is kept as the first is: all that
// was said when that was run holds for it. A policy of that session's scope names its uid,
// so it doesn't, and leases were published for the first.
func (s *maker) fork(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	return s.twin(ctx, n, "fork session "+n.String(), req, func() (statekv.Versioned, error) { return s.origin(ctx, n, req, "fork") })
}

// twin makes a session from the memory and files of what is kept under a name: a session, or a template. what says that in
// errors; get gives its record, with the snapshot as its head that the session begins from.
func (s *maker) twin(ctx context.Context, n schemas.Name, what string, req request, get func() (statekv.Versioned, error)) (any, error) {
	to, err := newName(req.To)
	if err != nil {
		return nil, err
	}
	if to.Tenant != n.Tenant {
		return nil, schemas.UsageError("%s to %s: the tenants differ", what, to)
	}
	if to == n {
		return nil, schemas.StateError(schemas.ReasonExists, "%s: the copy has the same name", what).WithHint("give the copy another name")
	}
	if out, made, err := s.again(ctx, to, req, ""); made {
		return out, err
	}
	if err := s.free(ctx, to); err != nil {
		if out, made, err := s.again(ctx, to, req, ""); made { // by the same request, just now
			return out, err
		}
		return nil, err
	}
	if err := s.mayPublish(ctx, n, what, req); err != nil {
		return nil, err
	}
	v, err := get()
	if err != nil {
		return nil, err
	}
	if err := mayCarry(req.by, v.SessionRecord); err != nil {
		return nil, err
	}
	if err := s.failpoints.At(ctx, failpoint.APIForkHead); err != nil {
		return nil, err
	}
	op, err := s.sessions.newOp(ctx, schemas.OpResume)
	if err != nil {
		return nil, err
	}
	op.Source, op.Boot = v.Head, schemas.BootFork
	fresh := like(v.SessionRecord)
	if fresh.Publish, err = s.desktops.ofFork(ctx, v.SessionRecord, publishedByFork(v, req), req); err != nil {
		return nil, err
	}
	t := schemas.Transition{
		Type: schemas.TForkNew, Reason: "fork of " + n.String() + " at " + snapshotID(*v.Head),
		Set: schemas.Set{Op: op, Idle: v.Idle, Head: v.Head, Size: v.Size},
	}
	if template, ok := n.Template(); ok {
		t.Reason = "made from template " + template
	}
	return s.create(ctx, to, req, fresh, t, func(fork statekv.Versioned) error {
		return s.stillThere(ctx, req, what, v, fork, *fork.Head)
	})
}

// like is what is made with what another is: all that was said when that was run holds for it.
func like(v schemas.SessionRecord) schemas.NewSession {
	fresh := schemas.NewSession{
		Class: v.Class, Driver: v.Driver, MadeBy: v.MadeBy, Program: v.Program, Spec: v.Spec, TTY: v.TTY, Disk: v.Disk,
		Network: v.Network, AllowOut: v.AllowOut, Publish: v.Publish, Desktop: v.Desktop, Loosened: v.Loosened, Root: v.Root, OnLoss: v.OnLoss, OnBreaker: v.OnBreaker, OnResume: v.OnResume, Placement: v.Placement, Labels: v.Labels,
		Needs: slices.DeleteFunc(slices.Clone(v.Needs), func(f schemas.Feature) bool { return f == schemas.FeatureTemplates }),
	}
	if template, ok := v.Name().Template(); ok {
		o := schemas.Origin{Template: template}
		if v.Origin != nil {
			o.Session, o.Snapshot = v.Origin.Session, v.Origin.Snapshot
		}
		fresh.Origin = &o
	} else if v.Head != nil {
		fresh.Origin = &schemas.Origin{Session: v.Name().String(), Snapshot: snapshotID(*v.Head)}
	}
	return fresh
}

// origin gives the session that is forked, with the snapshot as its head that the fork begins from: the one that
// is asked for, whichever state the session is in, or what it is now.
func (s *maker) origin(ctx context.Context, n schemas.Name, req request, trigger string) (statekv.Versioned, error) {
	v, err := s.sessions.get(ctx, n)
	if err == nil {
		err = notAdopted(v, "copied")
	}
	if err != nil {
		return v, err
	}
	if req.Snapshot == "" {
		return s.captures.captured(ctx, n, req, trigger)
	}
	l, err := s.snapshots.find(ctx, v, req.Snapshot)
	v.Head, v.Size = &l.Head, nil
	return v, err
}

// mayPublish refuses ports for a fork that can't have any, before anything is done for it.
func (s *maker) mayPublish(ctx context.Context, n schemas.Name, what string, req request) error {
	if len(req.Publish) == 0 {
		return nil
	}
	if err := list("publish", req.Publish, maxAddress); err != nil {
		return err
	}
	v, err := s.sessions.get(ctx, n)
	if err == nil && v.Network != schemas.NetworkPrivate {
		err = schemas.UsageError("%s: only a private network publishes ports", what)
	}
	return err
}

// publishedByFork are the ports of a fork: its origin's, unless others were asked for.
func publishedByFork(v statekv.Versioned, req request) []string {
	switch {
	case len(req.Publish) == 0:
		return v.Publish
	case slices.Equal(req.Publish, []string{"none"}):
		return nil
	}
	return req.Publish
}

// free refuses a name that is taken, before anything is done for it.
func (s *maker) free(ctx context.Context, n schemas.Name) error {
	v, err := s.records.Get(ctx, n)
	if errors.Is(err, statekv.ErrNoSession) || err == nil && v.State == schemas.Deleted {
		return nil
	}
	if err != nil {
		return err
	}
	return schemas.StateError(schemas.ReasonExists, "session %s exists and is %s", n, v.State).WithHint("give the copy another name, or remove that one with `diapause rm %s`", n)
}

// stillThere undoes what was made of something, if that, or the snapshot that it begins from, was
// deleted while it was made: its images may be gone.
func (s *maker) stillThere(ctx context.Context, req request, what string, origin, fork statekv.Versioned, from schemas.Head) error {
	if err := s.failpoints.At(ctx, failpoint.APIForkMade); err != nil {
		return err
	}
	now, err := s.sessions.get(ctx, origin.Name())
	gone := false
	if err == nil && now.UID == origin.UID {
		gone, err = image.Marked(ctx, s.images, from)
	} else if err == nil {
		err = schemas.StateError(schemas.ReasonDeleted, "%s: it was deleted and made again meanwhile", what)
	}
	if gone {
		err = schemas.StateError(schemas.ReasonDeleted, "%s: its snapshot was deleted meanwhile", what).WithHint("try again")
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, s.unmake(ctx, req, fork, "what it was forked from was deleted"))
}

// clear removes a fork that could not be started and never ran, waits until it is gone, and
// returns why it could not. If it isn't removed in time, the hint says how to do that.
func (s *maker) clear(ctx context.Context, req request, fork statekv.Versioned, ch <-chan statekv.Versioned, cause error) error {
	err := s.unmake(ctx, req, fork, "it could not be started")
	if err == nil {
		_, err = await(ctx, ch, func(v statekv.Versioned) (outcome, error) {
			return when(v.UID != fork.UID || v.State == schemas.Deleted && v.Op == nil), nil
		})
	}
	if err != nil {
		s.sessions.log.Warn("a fork that could not be started isn't removed", fork.Logged("err", err)...)
		return coded(cause).WithHint("`diapause rm %s` removes what is left of it", fork.Name())
	}
	return cause
}

// unmake removes a fork that can't begin, no matter what its host has done about it meanwhile.
func (s *maker) unmake(ctx context.Context, req request, fork statekv.Versioned, reason string) error {
	for {
		op, err := s.sessions.newOp(ctx, schemas.OpRemove)
		if err != nil {
			return err
		}
		t := schemas.Transition{Type: schemas.TRemove, Reason: reason, Set: schemas.Set{Op: op}}
		if _, err = s.sessions.ask(ctx, fork, req, t); !errors.Is(err, statekv.ErrConflict) {
			return err
		}
		now, err := s.records.Get(ctx, fork.Name())
		if err != nil || now.UID != fork.UID || now.State == schemas.Deleted {
			return err
		}
		fork = now
	}
}
