package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// resumer answers the verbs that have a session run that exists.
type resumer struct {
	sessions *sessions
	hosts    *placement
	quotas   *quotas
	board    *board
}

func (s *resumer) ensure(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	v, err := s.sessions.get(ctx, n)
	if err != nil {
		return nil, err
	}
	if v.Archived != nil {
		return nil, inArchive(v)
	}
	if err := s.quotas.mayWake(v); err != nil {
		return nil, err
	}
	if err := s.tooSoon(v, time.Now()); err != nil {
		return nil, err
	}
	if v.State == schemas.Suspended && v.Op == nil { // it is resumed here, so that the log names who wanted it
		got, err := s.brought(ctx, v, req)
		if wanted := s.wanted(context.WithoutCancel(ctx), n, req); err == nil && wanted != nil {
			s.sessions.log.Warn("activity not published", "session", n.String(), "err", wanted)
		}
		return got, err
	}
	if err := s.wanted(ctx, n, req); err != nil {
		return nil, err
	}
	return s.brought(ctx, v, req)
}

// wanted says that a session is wanted, which is activity: it undoes a suspend under way and begins a grace. It also has
// a session resumed later that couldn't be at once.
func (s *resumer) wanted(ctx context.Context, n schemas.Name, req request) error {
	ctx, done := context.WithTimeout(ctx, wantedWithin)
	defer done()
	publish := s.sessions.publish
	publish.Trace = req.by.trace()
	_, err := publish.Activity(ctx, n, schemas.KindHTTP, "", schemas.Activity{Reason: schemas.ReasonEnsure, By: req.by.String()})
	return err
}

// wantedWithin bounds how long that takes.
const wantedWithin = 10 * time.Second

// brought has a session run that was wanted: from its image, or from its command where that is proven to be of no use and
// its policy says so.
func (s *resumer) brought(ctx context.Context, v statekv.Versioned, req request) (any, error) {
	n := v.Name()
	if why := session.Fresh(v.SessionRecord, s.quotas.policyOf(v.SessionRecord)); why != "" {
		return s.fresh(ctx, v, req, why)
	}
	got, failed := s.awake(ctx, n, req, byUse)
	if failed == nil {
		return got, nil
	}
	if v, err := s.sessions.get(ctx, n); err == nil {
		if why := session.Fresh(v.SessionRecord, s.quotas.policyOf(v.SessionRecord)); why != "" {
			return s.fresh(ctx, v, req, why)
		}
	}
	return nil, failed
}

// fresh starts the command of a session in place of its image, which is proven to be of no use.
func (s *resumer) fresh(ctx context.Context, v statekv.Versioned, req request, why schemas.Cause) (any, error) {
	n := v.Name()
	ch, stop := s.board.follow(n)
	defer stop()
	host, err := s.hosts.next(ctx, v, nil, nil)
	if err != nil {
		return nil, err
	}
	seq, err := stream.LastActivity(ctx, s.sessions.js, s.sessions.names)
	if err != nil {
		return nil, err
	}
	t := session.FreshStart(v.SessionRecord, why, seq, time.Now())
	t.Set.Host = host
	if req.Reason != "" { // which else would take its place
		req.Reason += "; " + t.Reason
	}
	v, err = s.sessions.ask(ctx, v, req, t)
	if errors.Is(err, statekv.ErrConflict) { // activity was quicker, or it goes on
		return s.awake(ctx, n, req, nil)
	}
	if err != nil {
		return nil, err
	}
	v, err = await(ctx, ch, s.sessions.untilRunning(v))
	return schemas.ViewOf(v.SessionRecord), err
}

func (s *resumer) resume(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	if req.Clean {
		return s.restart(ctx, n, req)
	}
	return s.awake(ctx, n, req, byRequest)
}

// goesOn gives what a session that is being resumed goes on from if that can't be done: the
// same elsewhere, or what it was, in whose place something else was to come.
func goesOn(r schemas.SessionRecord) (from schemas.Head, boot schemas.Boot) {
	if r.Op.Fallback == nil {
		return *r.Op.Source, r.Op.Boot
	}
	r.Head = r.Op.Fallback
	return *r.Head, session.BootOf(r)
}

// The states from which a session is brought back: by use of it, and by a request to resume it, which alone takes one out of the archive.
var (
	byUse     = []schemas.State{schemas.Suspended}
	byRequest = []schemas.State{schemas.Suspended, schemas.Failed}
)

// awake brings a session that is in one of the given states, or on its way, to
// running, and waits for it.
func (s *resumer) awake(ctx context.Context, n schemas.Name, req request, from []schemas.State) (any, error) {
	ch, stop := s.board.follow(n)
	defer stop()
	for {
		v, err := s.sessions.get(ctx, n)
		if err != nil {
			return nil, err
		}
		switch {
		case v.Archived != nil && !slices.Equal(from, byRequest):
			return nil, inArchive(v)
		case v.State == schemas.Running:
			if begins(v) && !s.hosts.lost(v) {
				got, err := await(ctx, ch, s.sessions.untilRunning(v))
				return schemas.ViewOf(got.SessionRecord), err
			}
			if err := s.hosts.stranded(v); err != nil || !s.hosts.lost(v) {
				return schemas.ViewOf(v.SessionRecord), err
			}
		case v.State == schemas.Suspended && v.Op != nil && !s.hosts.lost(v): // activity may still revive it, a resume takes longer
		case v.State == schemas.Starting, v.State == schemas.Resuming:
			until := s.sessions.untilRunning(v)
			got, err := awaitFrom(ctx, v, ch, func(w statekv.Versioned) (outcome, error) {
				if o, err := until(w); o == done || err != nil {
					return o, err
				}
				return pending, s.hosts.nowhere(ctx, w)
			})
			if v.Op != nil && v.Op.Source != nil {
				from, boot := goesOn(v.SessionRecord)
				got, err = s.elsewhere(ctx, got, req, from, boot, ch, err)
			}
			return schemas.ViewOf(got.SessionRecord), err
		case slices.Contains(from, v.State):
			if v.Head == nil && v.Archived != nil && !v.Archived.Dropped.IsZero() {
				return nil, memoryDropped(v)
			}
			if v.Head == nil {
				return nil, schemas.StateError(schemas.ReasonNoSnapshot, "session %s is %s and has no snapshot", n, v.State).WithHint("%s", withoutMemory(v))
			}
			got, err := s.askResume(ctx, v, req, *v.Head, session.BootOf(v.SessionRecord), ch)
			if errors.Is(err, statekv.ErrConflict) {
				continue
			}
			return schemas.ViewOf(got.SessionRecord), err
		case v.State == schemas.Suspending:
			if err := s.hosts.stranded(v); err != nil {
				return nil, err
			}
		case v.State == schemas.Exited:
			if err := neverRan(v); err != nil {
				return nil, err
			}
			return nil, schemas.StateError(schemas.ReasonExited, "session %s ended by itself with status %d", n, v.Exit.Code).WithHint("%s", withoutMemory(v))
		default:
			return nil, schemas.StateError(reasonIn(v.State), "session %s is %s: %s", n, v.State, schemas.About(n, reasonOf(v))).WithHint("%s", wayOn(v))
		}
		lost := s.hosts.lost(v)
		if _, err := awaitFrom(ctx, v, ch, func(w statekv.Versioned) (outcome, error) {
			return when(w.Version > v.Version || s.hosts.lost(w) != lost), nil
		}); err != nil {
			return nil, err
		}
	}
}

func reasonOf(v statekv.Versioned) string {
	if v.Failure != nil {
		return v.Failure.Text
	}
	return v.Transition.Reason
}

// restart starts a session's command again; what it had in memory stays in its
// snapshots.
func (s *resumer) restart(ctx context.Context, n schemas.Name, req request) (any, error) {
	ch, stop := s.board.follow(n)
	defer stop()
	v, err := s.sessions.get(ctx, n)
	if err == nil && v.State == schemas.Suspended && v.Op != nil {
		if _, err = await(ctx, ch, s.sessions.untilSuspended(v)); err == nil {
			v, err = s.sessions.get(ctx, n)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := neverRan(v); err != nil {
		return nil, err
	}
	if !session.Can(v.State, schemas.TRestart) || v.Op != nil {
		return nil, schemas.StateError(schemas.ReasonWrongState, "session %s is %s", n, v.State).WithHint("suspend it before you start it again")
	}
	op, err := s.sessions.newOp(ctx, schemas.OpStart)
	if err != nil {
		return nil, err
	}
	op.Boot = schemas.BootClean
	host, err := s.hosts.next(ctx, v, nil, nil)
	if err != nil {
		return nil, err
	}
	v, err = s.sessions.ask(ctx, v, req, schemas.Transition{Type: schemas.TRestart, Reason: "asked to start its command again", Set: schemas.Set{Op: op, Host: host}})
	if err != nil {
		return nil, err
	}
	v, err = await(ctx, ch, s.sessions.untilRunning(v))
	return schemas.ViewOf(v.SessionRecord), err
}

// askResume has a session go on from a snapshot, on one host after the other as long as
// there is another one, and waits until it runs. The error is that of the first.
func (s *resumer) askResume(ctx context.Context, v statekv.Versioned, req request, from schemas.Head, boot schemas.Boot, ch <-chan statekv.Versioned) (statekv.Versioned, error) {
	got, err := s.resumeOnce(ctx, v, req, from, boot, ch, nil)
	return s.elsewhere(ctx, got, req, from, boot, ch, err)
}

// elsewhere has the hosts that are left try what one couldn't, as err says; any other
// outcome it gives back as it is. The fleet does so too, for sessions that
// no caller waits for: either may be the quicker.
func (s *resumer) elsewhere(ctx context.Context, v statekv.Versioned, req request, from schemas.Head, boot schemas.Boot, ch <-chan statekv.Versioned, err error) (statekv.Versioned, error) {
	first := err
	for couldNot(v, err) {
		var got statekv.Versioned
		got, err = s.resumeOnce(ctx, v, req, from, boot, ch, v.Failure.Tried)
		if errors.Is(err, statekv.ErrConflict) {
			got, err = await(ctx, ch, s.sessions.untilRunning(v))
		}
		if err == nil {
			return got, nil
		}
		if !couldNot(got, err) {
			return v, first
		}
		v = got
	}
	return v, err
}

// couldNot reports whether a host failed to resume a session.
func couldNot(v statekv.Versioned, err error) bool {
	var refusal *schemas.APIError
	back := v.State == schemas.Suspended || v.State == schemas.Exited
	return errors.As(err, &refusal) && back && v.Failure != nil && v.Failure.Op == schemas.OpResume
}

func (s *resumer) resumeOnce(ctx context.Context, v statekv.Versioned, req request, from schemas.Head, boot schemas.Boot, ch <-chan statekv.Versioned, tried []schemas.HostID) (statekv.Versioned, error) {
	host, err := s.hosts.next(ctx, v, &from, tried)
	if err != nil {
		return statekv.Versioned{}, err
	}
	op, err := s.sessions.newOp(ctx, schemas.OpResume)
	if err != nil {
		return statekv.Versioned{}, err
	}
	op.Source, op.Boot, op.Tried = &from, boot, tried
	if len(tried) > 0 && v.Failure != nil {
		op.Refused = v.Failure.Refused
	}
	t := schemas.Transition{Type: schemas.TResume, Reason: "asked for it", Set: schemas.Set{Op: op, Host: host}}
	if len(tried) > 0 {
		t.Reason = fmt.Sprintf("host %s couldn't resume it; trying host %s", v.Host, host)
	}
	asked, err := s.sessions.ask(ctx, v, req, t)
	if err != nil {
		return statekv.Versioned{}, err
	}
	return await(ctx, ch, s.sessions.untilRunning(asked))
}

// wayOn says what may be done with a session that failed.
func wayOn(v statekv.Versioned) string {
	if v.Head == nil {
		return startAgain(v.Name())
	}
	return fmt.Sprintf("`diapause resume %s` tries its last snapshot again", v.Name())
}

// withoutMemory says how to go on from a session that can't be resumed.
func withoutMemory(v statekv.Versioned) string {
	if !v.TTY {
		return startAgain(v.Name())
	}
	return fmt.Sprintf("`diapause run --from %s --name NEW` starts a new terminal in its last directory, %s", v.Name(), startAgain(v.Name()))
}

// startAgain says how a session is started from its command.
func startAgain(n schemas.Name) string {
	return fmt.Sprintf("`diapause resume --clean %s` starts its command again", n)
}
