package janitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// archive archives the terminals whose policy asks for it, and of each tenant as many as it has more than it may have
// outside the archive. It changes records as their sessions are.
func (j *Janitor) archive(ctx context.Context, records []statekv.Versioned, now time.Time, out *schemas.StorePrune) {
	outside := map[schemas.Tenant][]*statekv.Versioned{}
	for i := range records {
		v := &records[i]
		if t, ok := session.ArchiveFor(v.SessionRecord, j.keep(v.SessionRecord), now); ok && j.restsSince(ctx, *v, now) {
			j.archiveOne(ctx, v, t, out)
		}
		if v.State != schemas.Deleted && v.State != schemas.Template && v.Archived == nil {
			outside[v.Tenant] = append(outside[v.Tenant], v)
		}
	}
	if j.Quota == nil {
		return
	}
	for tenant, all := range outside {
		most := j.Quota(tenant).Total
		if most == nil || *most == 0 || len(all) <= *most {
			continue
		}
		reason := fmt.Sprintf("tenant %s has %s, its policy wants %d at most that aren't archived", tenant, schemas.CountSessions(len(all)), *most)
		for _, v := range session.ArchiveForRoom(all, len(all)-*most, func(v *statekv.Versioned) schemas.SessionRecord { return v.SessionRecord }) {
			j.archiveOne(ctx, v, session.Archive(schemas.ArchivedForRoom, reason, now), out)
		}
	}
}

// restsSince reports whether a session has been in its state for as long as its policy says, by the clock of the server as well:
// that of its host may have been behind. An error counts as no.
func (j *Janitor) restsSince(ctx context.Context, v statekv.Versioned, now time.Time) bool {
	since, err := j.Records.InStateSince(ctx, v.Name())
	return err == nil && now.Sub(since) >= session.ArchivedAfter(v.SessionRecord, j.keep(v.SessionRecord))
}

// dropMemory has the records of those archived sessions say so whose memory is dropped by their policy. What it changed is
// in records: their snapshots go in the same run, or, if that is killed, in the next one. A session that others began from and go
// on from is left until they don't, and one that is held until it isn't.
func (j *Janitor) dropMemory(ctx context.Context, records []statekv.Versioned, now time.Time, out *schemas.StorePrune) {
	for i := range records {
		v := &records[i]
		t, ok := session.DropMemory(v.SessionRecord, j.keep(v.SessionRecord), now)
		if !ok || slices.ContainsFunc(records, func(w statekv.Versioned) bool {
			return w.UID != v.UID && w.State != schemas.Deleted && w.PointsAt(*v.Head)
		}) {
			continue
		}
		since, err := j.Records.ArchivedSince(ctx, v.Name())
		if err == nil && now.Sub(since) < time.Duration(*j.keep(v.SessionRecord).DropMemory) {
			continue // the clock of who archived it was behind: it isn't there for so long
		}
		var held time.Time
		if err == nil {
			held, err = j.Held(ctx, v.Name())
		}
		if !held.IsZero() {
			continue
		}
		if err == nil && !out.DryRun {
			err = j.DropMemory(ctx, *v, t)
		}
		switch {
		case errors.Is(err, statekv.ErrConflict): // it is used
		case err != nil:
			out.Problems = append(out.Problems, fmt.Sprintf("drop the memory of session %s: %v", v.Name(), err))
		default:
			v.Archived, v.Head = t.Set.Archived, nil
			out.Dropped = append(out.Dropped, v.Name().String())
		}
	}
}

// archiveOne archives one session. A problem with one doesn't keep it from the others.
func (j *Janitor) archiveOne(ctx context.Context, v *statekv.Versioned, t schemas.Transition, out *schemas.StorePrune) {
	var err error
	if !out.DryRun {
		err = j.ToArchive(ctx, *v, t.Set.Archived.For, t.Reason)
	}
	switch {
	case errors.Is(err, statekv.ErrConflict): // it is used
	case err != nil:
		out.Problems = append(out.Problems, fmt.Sprintf("archive session %s: %v", v.Name(), err))
	default:
		v.Archived = t.Set.Archived
		out.Archived = append(out.Archived, v.Name().String())
	}
}
