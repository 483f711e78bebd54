package api

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

// archiver puts sessions into the archive. A resume takes them out of it: that is a transition like any other.
type archiver struct {
	sessions *sessions
	captures *capturer
	quotas   *quotas
	board    *board
	actor    string // of what isn't asked for
}

// newArchiver makes an archiver, which hears when a tenant has got one more session.
func newArchiver(ss *sessions, hosts *placement, name string) *archiver {
	a := &archiver{sessions: ss, captures: &capturer{sessions: ss, hosts: hosts, board: ss.board}, quotas: ss.quotas, board: ss.board, actor: "archive@" + name}
	ss.grew = a.makeRoom
	return a
}

// archive puts a session into the archive. One that runs is suspended first.
func (a *archiver) archive(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	for suspended := false; ; {
		v, err := a.sessions.get(ctx, n)
		if err != nil || v.Archived != nil {
			return schemas.ViewOf(v.SessionRecord), err
		}
		if !v.TTY {
			return nil, schemas.StateError(schemas.ReasonWrongState, "archive session %s: it has no terminal", n).
				WithHint("it costs no memory while it is suspended: `diapause suspend %s`", n)
		}
		why := session.Unarchivable(v.SessionRecord)
		switch {
		case why == "":
			next, err := a.sessions.ask(ctx, v, req, session.Archive(schemas.ArchivedByHand, "asked to archive it", time.Now()))
			if errors.Is(err, statekv.ErrConflict) {
				continue
			}
			return schemas.ViewOf(next.SessionRecord), err
		case suspended, v.State == schemas.Exited, v.State == schemas.Failed:
			return nil, schemas.StateError(schemas.ReasonUndone, "archive session %s: %s", n, why).WithHint("try again")
		}
		if _, err := a.captures.suspended(ctx, n, req, "manual"); err != nil {
			return nil, err
		}
		suspended = true
	}
}

// drop drops the memory of an archived session because of its policy.
func (a *archiver) drop(ctx context.Context, v statekv.Versioned, t schemas.Transition) error {
	_, err := a.sessions.ask(ctx, v, request{by: Caller{Identity: a.actor}}, t)
	return err
}

// put archives a session because of a policy.
func (a *archiver) put(ctx context.Context, v statekv.Versioned, why schemas.ArchivedFor, reason string) error {
	_, err := a.sessions.ask(ctx, v, request{by: Caller{Identity: a.actor}}, session.Archive(why, reason, time.Now()))
	return err
}

// makeRoom archives as many sessions of a tenant as it has more than it may have in all. What can't be archived stays: this is
// no limit.
func (a *archiver) makeRoom(ctx context.Context, t schemas.Tenant) {
	if a.quotas.policies == nil {
		return
	}
	most := atMost(a.quotas.policies.Quota(t).Total)
	if most == 0 {
		return
	}
	a.board.mu.Lock()
	has := a.board.heldBy(t).Sessions
	a.board.mu.Unlock()
	if has <= most {
		return
	}
	all := slices.Collect(a.board.those(t, func(s sight) bool { return !s.archived && !s.busy }))
	for _, r := range session.ArchiveForRoom(all, has-most, func(r schemas.SessionRecord) schemas.SessionRecord { return r }) {
		v, err := a.sessions.get(ctx, r.Name())
		if err == nil && v.Version == r.Version {
			err = a.put(ctx, v, schemas.ArchivedForRoom, roomReason(t, has, most))
		}
		if err != nil {
			a.sessions.log.Warn("session not archived to make room", r.Logged("err", err)...)
		}
	}
}

func roomReason(t schemas.Tenant, has, most int) string {
	return fmt.Sprintf("tenant %s has %s, its policy wants %d at most that aren't archived", t, schemas.CountSessions(has), most)
}

// memoryDropped refuses to go on from a session that was archived for so long that its memory and files are gone.
func memoryDropped(v statekv.Versioned) error {
	return schemas.StateError(schemas.ReasonNoSnapshot, "session %s is archived without its memory", v.Name()).WithHint("its policy dropped it: %s", withoutMemory(v))
}

// inArchive refuses to do with an archived session what would wake it.
func inArchive(v statekv.Versioned) error {
	if err := neverRan(v); err != nil {
		return err
	}
	if !v.Archived.Dropped.IsZero() {
		return memoryDropped(v)
	}
	return schemas.StateError(schemas.ReasonArchived, "session %s is archived", v.Name()).
		WithHint("`diapause resume %s` takes it out of the archive; `diapause logs`, `commands` and `replay` read it as it is", v.Name())
}
