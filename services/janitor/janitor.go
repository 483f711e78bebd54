package janitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
)

// Options is what a janitor is made of.
type Options struct {
	Records *statekv.Store
	Images  objectstore.Store
	Publish stream.Publisher
	// Known gives all keys that images may have been signed with, revoked ones
	// too: what they wrote is deleted by the same rules.
	Known image.Trusted
	// Expire removes a session whose suspension is older than the policy allows,
	// if it still is as v says.
	Expire func(ctx context.Context, v statekv.Versioned, reason string) error
	// ToArchive, if given, archives a session, if it still is as v says, and Quota says how many a tenant may have that
	// aren't archived.
	ToArchive func(ctx context.Context, v statekv.Versioned, why schemas.ArchivedFor, reason string) error
	Quota     func(schemas.Tenant) schemas.Quota
	// DropMemory, if given, has the record of an archived session say that its memory and files are dropped.
	DropMemory func(ctx context.Context, v statekv.Versioned, t schemas.Transition) error
	// Held says until when a session is held: its memory isn't dropped before. It is given with DropMemory.
	Held   func(ctx context.Context, n schemas.Name) (until time.Time, err error)
	Policy Policy
	// Keep, if given, says what is kept of one session in place of Policy.
	Keep func(schemas.SessionRecord) schemas.Keep
	// Archive, if given, moves old revisions of the log to the store, and Past reads them there.
	Archive *archive.Archive
	Past    *archive.Reader
	// Done, if given, is told what each run came to.
	Done func(schemas.StorePrune, error)
	// Every is how often the house is kept, Wait how long unused objects stay
	// before they are marked, and again before they are deleted. An hour and a day if
	// zero.
	Every, Wait time.Duration
	Actor       string
	Log         *slog.Logger
}

// Janitor keeps house; Serve runs it.
type Janitor struct {
	Options
	one sync.Mutex // run at a time
}

// New makes a janitor.
func New(o Options) *Janitor {
	if o.Every == 0 {
		o.Every = time.Hour
	}
	if o.Wait == 0 {
		o.Wait = day
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Janitor{Options: o}
}

// Serve keeps house at intervals until ctx ends. What fails is logged, and done by
// a later run.
func (j *Janitor) Serve(ctx context.Context) error {
	t := time.NewTicker(j.Every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		out, err := j.Prune(ctx, false)
		if err != nil && ctx.Err() == nil {
			j.Log.Error("keeping house failed; it is tried again", "err", err)
		}
		for _, p := range out.Problems {
			j.Log.Warn("keeping house", "problem", p)
		}
	}
}

// Prune keeps house once. With dryRun it only tells what it would do.
func (j *Janitor) Prune(ctx context.Context, dryRun bool) (schemas.StorePrune, error) {
	j.one.Lock()
	defer j.one.Unlock()
	out, err := j.prune(ctx, dryRun)
	if j.Done != nil {
		j.Done(out, err)
	}
	return out, err
}

func (j *Janitor) prune(ctx context.Context, dryRun bool) (schemas.StorePrune, error) {
	out := schemas.StorePrune{DryRun: dryRun, Snapshots: []schemas.PrunedSnapshot{}, Expired: []string{}, Archived: []string{}, Dropped: []string{}, Problems: []string{}}
	records, err := j.Records.All(ctx)
	if err != nil {
		return out, fmt.Errorf("keep house: %w", err)
	}
	now, err := j.Records.Now(ctx) // by which nothing is old because a host's clock is off
	if err != nil {
		return out, fmt.Errorf("keep house: %w", err)
	}
	if j.ToArchive != nil {
		j.archive(ctx, records, now, &out)
	}
	if j.DropMemory != nil {
		j.dropMemory(ctx, records, now, &out)
	}
	j.expire(ctx, records, now, &out)
	all, lineages, err := j.snapshots(ctx, records, &out)
	if err != nil {
		return out, err
	}
	deleted := map[string]bool{} // by lineage: a snapshot of it
	for _, d := range Plan(all, j.Policy, now) {
		if err := j.delete(ctx, d, &out); err != nil {
			return out, err
		}
		deleted[d.Lineage] = true
	}
	for _, p := range lineages {
		c, err := image.Collect(ctx, j.Images, p.Tenant, p.Lineage, image.CollectOptions{Trusted: j.Known, Wait: j.Wait, DryRun: dryRun})
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if err != nil {
			out.Problems = append(out.Problems, err.Error())
		} else if !dryRun && (len(c.Deleted) > 0 || deleted[p.Lineage]) {
			j.measured(ctx, records, p, c.Left)
		}
		out.Marked, out.Deleted, out.DeletedBytes = out.Marked+len(c.Marked), out.Deleted+len(c.Deleted), out.DeletedBytes+c.Bytes
	}
	return out, j.moveLog(ctx, &out)
}

// moveLog moves what is old of the log of sessions.
func (j *Janitor) moveLog(ctx context.Context, out *schemas.StorePrune) error {
	if j.Archive == nil {
		return nil
	}
	p, err := j.Archive.Pass(ctx, out.DryRun)
	out.Log = &schemas.PrunedLog{
		Moved: p.Revisions, Segments: p.Segments, Bytes: p.Bytes, Forgotten: p.Sessions, AllSegments: p.Head.End.Number, AllBytes: p.Head.Bytes,
		At: p.Head.At, Revisions: p.Extent.Entries, OldestInNATS: p.Extent.Oldest,
	}
	out.Problems = append(out.Problems, p.Problems...)
	if err != nil && ctx.Err() == nil {
		out.Problems = append(out.Problems, fmt.Sprintf("move old revisions of the log: %v", err))
		err = nil
	}
	return err
}

// measured says what is left of a session's images after something of them was deleted:
// the log alone knows only what was written.
func (j *Janitor) measured(ctx context.Context, records []statekv.Versioned, p image.Place, left int64) {
	for _, v := range records {
		if v.Tenant != p.Tenant || v.Lineage != p.Lineage {
			continue
		}
		e := schemas.Event{Type: "stored", Tenant: v.Tenant, Session: v.Session, UID: v.UID, Bytes: left,
			Text: fmt.Sprintf("its images take %d bytes, after some were deleted", left), Actor: j.Actor, At: time.Now().UTC()}
		if err := j.Publish.Event(ctx, e); err != nil {
			j.Log.Warn("event not published", "err", err)
		}
		return
	}
}

// expire removes the sessions that have been suspended for too long. A problem with one
// doesn't keep it from the others.
func (j *Janitor) expire(ctx context.Context, records []statekv.Versioned, now time.Time, out *schemas.StorePrune) {
	for _, v := range records {
		after := j.expireAfter(v.SessionRecord)
		if v.Archived != nil || j.ToArchive != nil && session.ArchivedAfter(v.SessionRecord, j.keep(v.SessionRecord)) > 0 {
			continue // it is archived in place of that
		}
		if after <= 0 || v.State != schemas.Suspended || v.Op != nil || now.Sub(v.Since) < after {
			continue
		}
		since, err := j.Records.InStateSince(ctx, v.Name())
		if err == nil && now.Sub(since) < after {
			continue // the clock of its host was behind
		}
		if err == nil && !out.DryRun {
			err = j.Expire(ctx, v, fmt.Sprintf("expired: suspended for longer than %s", after))
		}
		if err != nil {
			out.Problems = append(out.Problems, fmt.Sprintf("remove expired session %s: %v", v.Name(), err))
			continue
		}
		out.Expired = append(out.Expired, v.Name().String())
	}
}

// keep is what a session's own policy says.
func (j *Janitor) keep(r schemas.SessionRecord) schemas.Keep {
	if j.Keep == nil {
		return schemas.Keep{}
	}
	return j.Keep(r)
}

func (j *Janitor) expireAfter(r schemas.SessionRecord) time.Duration {
	if k := j.keep(r); k.Expire != nil {
		return time.Duration(*k.Expire)
	}
	return j.Policy.Expire
}

// snapshots lists those of all sessions that there are. A session whose snapshots
// can't all be read is left out: nothing of it goes.
func (j *Janitor) snapshots(ctx context.Context, records []statekv.Versioned, out *schemas.StorePrune) (all []Snapshot, lineages []image.Place, err error) {
	for _, v := range records {
		if v.State == schemas.Deleted || v.Lineage == "" {
			continue
		}
		lineages = append(lineages, image.Place{Tenant: v.Tenant, Lineage: v.Lineage})
		if v.State == schemas.Template { // it is kept until it is removed, and counts for no limit
			continue
		}
		list, err := image.List(ctx, j.Images, v.Tenant, v.Lineage, j.Known)
		if err != nil {
			return nil, nil, fmt.Errorf("keep house: session %s: %w", v.Name(), err)
		}
		for _, l := range list {
			if l.Err != nil {
				out.Problems = append(out.Problems, fmt.Sprintf("session %s: snapshot %s can't be read: %v", v.Name(), l.Head.Name, l.Err))
				continue
			}
			all = append(all, Snapshot{
				Session: v.Name(), UID: v.UID, Class: v.Class, Keep: j.keep(v.SessionRecord), Lineage: v.Lineage, Head: l.Head,
				At: l.Header.Time, Bytes: l.Header.StoredBytes, Needed: needed(records, l.Head), Dropped: v.Archived != nil && !v.Archived.Dropped.IsZero(),
			})
		}
	}
	return all, lineages, nil
}

// needed reports whether a session goes on from a snapshot, or is about to.
func needed(records []statekv.Versioned, head schemas.Head) bool {
	for _, v := range records {
		if v.State != schemas.Deleted && v.PointsAt(head) {
			return true
		}
	}
	return false
}

// stillDropped reports whether the memory of a session still is dropped. One that was started again since may have written a snapshot
// that its record doesn't point at yet.
func stillDropped(records []statekv.Versioned, uid schemas.UID) bool {
	return slices.ContainsFunc(records, func(v statekv.Versioned) bool {
		return v.UID == uid && v.Archived != nil && !v.Archived.Dropped.IsZero()
	})
}

// delete deletes one snapshot, unless a session has come to need it.
func (j *Janitor) delete(ctx context.Context, d Deletion, out *schemas.StorePrune) error {
	if !out.DryRun {
		unused := func(ctx context.Context) (bool, error) {
			now, err := j.Records.All(ctx)
			return err == nil && !needed(now, d.Head) && (!d.Dropped || stillDropped(now, d.UID)), err
		}
		err := image.DeleteSnapshot(ctx, j.Images, d.Session.Tenant, d.Lineage, d.Head.Name, j.Known, unused)
		switch {
		case errors.Is(err, image.ErrInUse):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			out.Problems = append(out.Problems, fmt.Sprintf("session %s: %v", d.Session, err))
			return nil
		}
		e := schemas.Event{Type: "image_deleted", Tenant: d.Session.Tenant, Session: d.Session.Session, UID: d.UID,
			Text: "snapshot " + image.SnapshotID(d.Head.Name) + " was deleted: " + d.Reason, Actor: j.Actor, At: time.Now().UTC()}
		if err := j.Publish.Event(ctx, e); err != nil {
			j.Log.Warn("event not published", "err", err)
		}
	}
	out.Snapshots = append(out.Snapshots, schemas.PrunedSnapshot{
		Name: d.Session.String(), ID: image.SnapshotID(d.Head.Name), At: d.At, StoredBytes: d.Bytes, Reason: d.Reason,
	})
	return nil
}
