package api

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/janitor"
)

// storeVerbs answers the verbs that look after the object store.
type storeVerbs struct {
	sessions  *sessions
	snapshots *snapshots
	janitor   *janitor.Janitor
	reader    Reader
}

// storeVerbs are the endpoints that look after the object store; a server without
// a janitor has none.
func (s *storeVerbs) storeVerbs() map[string]handler {
	if s.janitor == nil {
		return nil
	}
	return map[string]handler{
		"store_check": s.storeCheck, "store_stats": s.storeStats, "store_prune": s.storePrune, "verify": s.verify,
	}
}

func (s *storeVerbs) storeCheck(ctx context.Context, req request) (any, error) {
	var o schemas.StoreRequest
	if req.Store != nil {
		o = *req.Store
	}
	var read func(string) bool
	switch {
	case o.Subset != "":
		var err error
		if read, err = janitor.Subset(o.Subset); err != nil {
			return nil, schemas.UsageError("%v", err)
		}
	case o.ReadData:
		read = func(string) bool { return true }
	}
	return s.janitor.Check(ctx, s.snapshots.known(), read)
}

func (s *storeVerbs) storeStats(ctx context.Context, _ request) (any, error) {
	return s.janitor.Stats(ctx)
}

func (s *storeVerbs) storePrune(ctx context.Context, req request) (any, error) {
	return s.janitor.Prune(ctx, req.Store != nil && req.Store.DryRun)
}

// verify reads a snapshot from end to end, as a resume would, and compares all of
// it.
func (s *storeVerbs) verify(ctx context.Context, req request) (any, error) {
	v, err := s.sessions.named(ctx, req)
	if err != nil {
		return nil, err
	}
	head := v.Head
	if req.Snapshot != "" {
		l, err := s.snapshots.find(ctx, v, req.Snapshot)
		if err != nil {
			return nil, err
		}
		head = &l.Head
	}
	if head == nil {
		return nil, schemas.StateError(schemas.ReasonNoSnapshot, "session %s has no snapshot yet", v.Name())
	}
	began := time.Now()
	img, err := s.reader.OpenImage(ctx, v.SessionRecord, *head)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	if err := img.Verify(ctx); err != nil {
		return nil, schemas.FailedError(schemas.ReasonUnreadable, "verify snapshot %s of session %s: %v", snapshotID(*head), v.Name(), err)
	}
	restore := req.Store != nil && req.Store.Restore
	if restore {
		if err := s.reader.TryImage(ctx, v.SessionRecord, img); schemas.CodeOf(err) != "" {
			return nil, err
		} else if err != nil {
			return nil, schemas.FailedError(schemas.ReasonUnreadable, "restore snapshot %s of session %s: %v", snapshotID(*head), v.Name(), err)
		}
	}
	h := img.Header()
	out := schemas.Verified{
		Name: v.Name().String(), ID: snapshotID(*head), Entries: len(img.Entries()), LogicalBytes: h.LogicalBytes,
		Packs: len(h.Packs), Restored: restore, Seconds: time.Since(began).Seconds(),
	}
	e := schemas.Event{Type: "verified", Tenant: v.Tenant, Session: v.Session, UID: v.UID, Actor: req.by.Actor(), Note: req.by.Note,
		Text: fmt.Sprintf("snapshot %s was read and compared: %d entries, %d bytes; restored in quarantine: %t", out.ID, out.Entries, out.LogicalBytes, restore), At: time.Now().UTC()}
	s.sessions.event(ctx, e)
	return out, nil
}

// Reader reads the images of sessions; the worker of the same process does. Its errors may be
// those of the API.
type Reader interface {
	// OpenImage opens a snapshot as a resume would.
	OpenImage(ctx context.Context, r schemas.SessionRecord, head schemas.Head) (*image.Reader, error)
	// TryImage restores a snapshot in quarantine and kills it before its first
	// instruction.
	TryImage(ctx context.Context, r schemas.SessionRecord, img *image.Reader) error
}
