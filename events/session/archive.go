package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Unarchivable says why a session can't be archived; "" if it can.
func Unarchivable(r schemas.SessionRecord) string {
	switch {
	case !r.TTY:
		return "it has no terminal"
	case r.Archived != nil:
		return "it is archived"
	case !slices.Contains(resting, r.State):
		return "it is " + string(r.State)
	case r.Op != nil:
		return r.Underway()
	}
	return ""
}

// Archive gives the transition that puts a session into the archive.
func Archive(why schemas.ArchivedFor, reason string, now time.Time) schemas.Transition {
	return schemas.Transition{Type: schemas.TArchived, Reason: reason, Set: schemas.Set{Archived: &schemas.Archived{At: now.UTC().Truncate(time.Millisecond), For: why}}}
}

// ArchiveFor gives the transition that archives a session at now by its policy; ok is false if that isn't due.
func ArchiveFor(r schemas.SessionRecord, keep schemas.Keep, now time.Time) (t schemas.Transition, ok bool) {
	after := ArchivedAfter(r, keep)
	if after <= 0 || Unarchivable(r) != "" || now.Sub(r.Since) < after {
		return t, false
	}
	return Archive(schemas.ArchivedForAge, fmt.Sprintf("%s for longer than %s", r.State, schemas.Duration(after)), now), true
}

// ArchivedAfter is after how long its policy archives a session, in place of removing it; never if 0.
func ArchivedAfter(r schemas.SessionRecord, keep schemas.Keep) time.Duration {
	if keep.Archive == nil || !r.TTY {
		return 0
	}
	return time.Duration(*keep.Archive)
}

// DropMemory gives the transition that drops the memory and files of an archived session at now by its policy; ok is false if
// that isn't due. Its snapshots may be deleted from then on, but for those that others go on from.
func DropMemory(r schemas.SessionRecord, keep schemas.Keep, now time.Time) (t schemas.Transition, ok bool) {
	if keep.DropMemory == nil || *keep.DropMemory == 0 || !droppable(r) || now.Sub(r.Archived.At) < time.Duration(*keep.DropMemory) {
		return t, false
	}
	a := *r.Archived
	a.Dropped = now.UTC().Truncate(time.Millisecond)
	reason := fmt.Sprintf("in the archive for longer than %s: its memory and files are dropped", time.Duration(*keep.DropMemory))
	needs := append(slices.Clone(r.Needs), schemas.FeatureDropped) // a version that doesn't know it would start it as one that has no snapshot yet
	return schemas.Transition{Type: schemas.TMemoryDropped, Reason: reason, Set: schemas.Set{Archived: &a, Needs: needs}}, true
}

// droppable reports whether a session is in the archive, and has memory there. One with a notice has memory that a person is to decide
// on first.
func droppable(r schemas.SessionRecord) bool {
	return r.Archived != nil && r.Op == nil && r.Head != nil && r.Notice == nil && slices.Contains(resting, r.State)
}

func setMemoryDropped(r *schemas.SessionRecord, t schemas.Transition) {
	r.Archived, r.Head, r.Size = t.Set.Archived, nil, nil
	if t.Set.Needs != nil {
		r.Needs = t.Set.Needs
	}
}

// setInUse takes what runs, or is to, out of the archive.
func setInUse(r *schemas.SessionRecord) {
	r.Archived = nil
	if slices.Contains(r.Needs, schemas.FeatureDropped) {
		r.Needs = slices.DeleteFunc(slices.Clone(r.Needs), func(f schemas.Feature) bool { return f == schemas.FeatureDropped })
	}
}

// ArchiveForRoom chooses so many of the sessions of one tenant to be archived, or as many as can be: those that
// have rested for the longest. It keeps none of the slice, and may reorder it.
func ArchiveForRoom[R any](all []R, n int, record func(R) schemas.SessionRecord) []R {
	all = slices.DeleteFunc(all, func(r R) bool { return Unarchivable(record(r)) != "" })
	slices.SortFunc(all, func(a, b R) int {
		x, y := record(a), record(b)
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Session, y.Session))
	})
	return all[:min(max(n, 0), len(all))]
}
