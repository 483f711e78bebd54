package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
	"github.com/diapause/diapause/services/keys"
)

// snapshots answers the verbs about the snapshots of a session.
type snapshots struct {
	sessions *sessions
	captures *capturer
	resumes  *resumer
	board    *board
	images   objectstore.Store
	keys     *keys.Keeper // nil where trusted says all
	records  *statekv.Store
	past     *archive.Reader
	trusted  image.Trusted
}

// rollback takes a session back to one of its snapshots, memory and files
// together. What it is now becomes a snapshot first.
func (s *snapshots) rollback(ctx context.Context, req request) (any, error) {
	v, err := s.sessions.named(ctx, req)
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
		if v, err = s.captures.suspended(ctx, n, req, "before_rollback"); err != nil {
			return nil, err
		}
	}
	ch, stop := s.board.follow(n)
	defer stop()
	v, err = s.resumes.askResume(ctx, v, req, target.Head, schemas.BootRollback, ch)
	return schemas.ViewOf(v.SessionRecord), err
}

// find gives the snapshot of a session's lineage with that id.
func (s *snapshots) find(ctx context.Context, v statekv.Versioned, id string) (image.Listed, error) {
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

func (s *snapshots) snapshots(ctx context.Context, req request) (any, error) {
	v, err := s.sessions.named(ctx, req)
	if err != nil {
		return nil, err
	}
	all, err := s.listed(ctx, v)
	if err != nil {
		return nil, err
	}
	origins, gap, err := s.origins(ctx, v.Name(), all)
	if err != nil {
		return nil, err
	}
	out := []schemas.SnapshotView{}
	for _, l := range all {
		view := schemas.SnapshotView{ID: snapshotID(l.Head), Head: v.Head != nil && *v.Head == l.Head}
		if o, known := origins[l.Head]; known {
			view.By, view.Reason, view.Restores = o.by, o.reason, o.restores
		} else {
			view.Reason = gap
		}
		if l.Err != nil {
			view.Error = l.Err.Error()
		} else {
			h := l.Header
			view.At, view.LogicalBytes, view.NewBytes, view.StoredBytes = h.Time, h.LogicalBytes, h.NewBytes, h.StoredBytes
			if h.Parent != nil {
				view.Parent = snapshotID(*h.Parent)
			}
			view.Trigger, view.Description, view.RunID = h.Trigger, cmp.Or(h.Description, origins[l.Head].replaced), h.RunID
		}
		out = append(out, view)
	}
	return out, nil
}

func (s *snapshots) snapshotRemove(ctx context.Context, req request) (any, error) {
	v, err := s.sessions.named(ctx, req)
	if err != nil {
		return nil, err
	}
	n := v.Name()
	l, err := s.find(ctx, v, req.Snapshot)
	if err != nil {
		return nil, err
	}
	err = image.DeleteSnapshot(ctx, s.images, v.Tenant, v.Lineage, l.Head.Name, s.known(), func(ctx context.Context) (bool, error) {
		return s.unused(ctx, v.UID, l.Head)
	})
	if errors.Is(err, image.ErrInUse) {
		return nil, schemas.StateError(schemas.ReasonInUse, "snapshot %s of session %s is in use", req.Snapshot, n).WithHint("a session goes on from it, or an operation of session %s is under way", n)
	}
	if err != nil {
		return nil, fmt.Errorf("delete snapshot %s of session %s: %w", req.Snapshot, n, err)
	}
	e := schemas.Event{Type: "image_deleted", Tenant: n.Tenant, Session: n.Session, UID: v.UID,
		Text: "snapshot " + req.Snapshot + " was deleted", Actor: req.by.Actor(), Note: req.by.Note, At: time.Now().UTC()}
	s.sessions.event(ctx, e)
	return schemas.ViewOf(v.SessionRecord), nil
}

// unused reports whether no session goes on from a snapshot, and nothing is being
// done to the one that it is of.
func (s *snapshots) unused(ctx context.Context, of schemas.UID, head schemas.Head) (bool, error) {
	all, err := s.records.All(ctx)
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

// known gives the keys that images may ever have been signed with: for what is
// kept, as opposed to what is believed.
func (s *snapshots) known() image.Trusted {
	if s.keys == nil {
		return s.trusted
	}
	return s.keys.Ring.Known
}

// listed lists the snapshots of a session. One whose writer was revoked is as good
// as ever if it was recorded as the session's head before that; else it is listed
// as one that isn't trusted.
func (s *snapshots) listed(ctx context.Context, v statekv.Versioned) ([]image.Listed, error) {
	trusted := s.trusted
	if s.keys != nil {
		trusted = image.TrustedWhen(s.keys.Ring.Writers(ctx, v.Tenant), nil)
	}
	all, err := image.List(ctx, s.images, v.Tenant, v.Lineage, trusted)
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of session %s: %w", v.Name(), err)
	}
	if s.keys == nil || !slices.ContainsFunc(all, func(l image.Listed) bool { return l.Err != nil }) {
		return all, nil
	}
	history, _, err := s.past.History(ctx, v.Name()) // without the revision that recorded it a snapshot isn't trusted
	if err != nil {
		return nil, err
	}
	for i, l := range all {
		if l.Err == nil {
			continue
		}
		recorded := func() time.Time { return keys.Recorded(history, l.Head) }
		o := image.ReadOptions{Trusted: image.TrustedWhen(s.keys.Ring.Writers(ctx, v.Tenant), recorded)}
		if h, err := image.Inspect(ctx, s.images, l.Head, o); err == nil {
			all[i].Header, all[i].Err = h, nil
		}
	}
	return all, nil
}
