package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
)

// Fleet knows the hosts. *fleet.Fleet is one.
type Fleet interface {
	Place(ctx context.Context, w fleet.Want) (schemas.HostID, schemas.Fingerprint, error)
	Gone(h schemas.HostID) (since time.Time, gone bool)
}

// place chooses the host of a new session, and its driver, by its fingerprint, if none is asked for. One that
// begins from a snapshot needs a host that can take that.
func (s *Server) place(ctx context.Context, driver schemas.DriverName, n schemas.Name, from *schemas.Head, req schemas.Request, tried []schemas.HostID) (schemas.HostID, schemas.Fingerprint, error) {
	w := fleet.Want{Need: schemas.Fingerprint{Driver: driver}, Prefer: s.Host, Not: tried}
	if from != nil {
		var err error
		if w.Need, err = s.needOf(ctx, n, *from); err != nil {
			return "", w.Need, err
		}
	}
	if req.Run != nil {
		w.Only = req.Run.Host
	}
	host, with, err := s.Fleet.Place(ctx, w)
	if err != nil {
		return "", with, schemas.FailedError(schemas.ReasonNoHost, "place session %s: %v", n, err)
	}
	return host, with, nil
}

// home chooses where a session goes on: its own host, which may have kept what saves
// time, unless that is gone or was tried; else any that can take the snapshot, or only
// has its driver if it begins anew (from nil).
func (s *Server) home(ctx context.Context, v statekv.Versioned, from *schemas.Head, tried []schemas.HostID) (schemas.HostID, error) {
	since, gone := s.Fleet.Gone(v.Host)
	if !gone && len(tried) == 0 {
		return v.Host, nil
	}
	need := schemas.Fingerprint{Driver: v.Driver}
	if from != nil {
		var err error
		if need, err = s.needOf(ctx, v.Name(), *from); err != nil {
			return "", err
		}
	}
	host, _, err := s.Fleet.Place(ctx, fleet.Want{Need: need, Not: tried})
	if err != nil && gone {
		return "", schemas.FailedError(schemas.ReasonHostGone, "host %s of session %s is gone since %s: %v", v.Host, v.Name(), since.Format(time.RFC3339), err)
	}
	if err != nil {
		return "", schemas.FailedError(schemas.ReasonNoHost, "place session %s: %v", v.Name(), err)
	}
	return host, nil
}

// needOf gives what a host needs to go on from a snapshot.
func (s *Server) needOf(ctx context.Context, n schemas.Name, from schemas.Head) (schemas.Fingerprint, error) {
	h, err := image.Inspect(ctx, s.Images, from, image.ReadOptions{Trusted: s.Trusted, Expect: image.Expect{Tenant: n.Tenant}})
	if err != nil {
		return schemas.Fingerprint{}, schemas.FailedError(schemas.ReasonUnreadable, "inspect the snapshot of session %s: %v", n, err)
	}
	return h.Fingerprint, nil
}

// remover gives the host that removes a session in the place of its own, if that is gone
// and nothing of the session ran there: what it left is in the store. Its own host
// removes what it kept when it is back. "" is its own.
func (s *Server) remover(ctx context.Context, v statekv.Versioned, t schemas.TransitionType) schemas.HostID {
	quiet := v.State == schemas.Suspended || v.State == schemas.Exited || v.State == schemas.Failed
	if t != schemas.TRemove || !quiet || !s.lost(v) {
		return ""
	}
	host, _, err := s.Fleet.Place(ctx, fleet.Want{Need: schemas.Fingerprint{Driver: v.Driver}, Prefer: s.Host})
	if err != nil {
		return "" // it waits for its own
	}
	return host
}

// stranded says of a session that should run that its host is gone; nil if it isn't, or
// if another host is about to take the session over.
func (s *Server) stranded(v statekv.Versioned) error {
	since, gone := s.Fleet.Gone(v.Host)
	if !gone || v.OnLoss == schemas.LossResume && v.Head != nil {
		return nil
	}
	what := "it was made to wait for it"
	if v.OnLoss == schemas.LossResume {
		what = "it was never captured, so no other host can resume it"
	}
	return schemas.StateError(schemas.ReasonHostGone, "session %s is %s on host %s, which is gone since %s: %s", v.Name(), v.State, v.Host, since.Format(time.RFC3339), what)
}

// lost reports whether a session's host is gone.
func (s *Server) lost(v statekv.Versioned) bool {
	_, gone := s.Fleet.Gone(v.Host)
	return gone
}

// askResume has a session go on from a snapshot, on one host after the other as long as
// there is another one, and waits until it runs. The error is that of the first.
func (s *Server) askResume(ctx context.Context, v statekv.Versioned, req schemas.Request, from schemas.Head, boot schemas.Boot, ch <-chan statekv.Versioned) (statekv.Versioned, error) {
	got, err := s.resumeOnce(ctx, v, req, from, boot, ch, nil)
	return s.elsewhere(ctx, got, req, from, boot, ch, err)
}

// elsewhere has the hosts that are left try what one couldn't, as err says; any other
// outcome it gives back as it is. Whoever watches the hosts does so too, for sessions
// that nobody waits for: either may be the quicker.
func (s *Server) elsewhere(ctx context.Context, v statekv.Versioned, req schemas.Request, from schemas.Head, boot schemas.Boot, ch <-chan statekv.Versioned, err error) (statekv.Versioned, error) {
	first := err
	for couldNot(v, err) {
		var got statekv.Versioned
		got, err = s.resumeOnce(ctx, v, req, from, boot, ch, v.Failure.Tried)
		if errors.Is(err, statekv.ErrConflict) {
			got, err = await(ctx, ch, s.untilRunning(v))
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

func (s *Server) resumeOnce(ctx context.Context, v statekv.Versioned, req schemas.Request, from schemas.Head, boot schemas.Boot, ch <-chan statekv.Versioned, tried []schemas.HostID) (statekv.Versioned, error) {
	host, err := s.home(ctx, v, &from, tried)
	if err != nil {
		return statekv.Versioned{}, err
	}
	op, err := s.newOp(ctx, schemas.OpResume)
	if err != nil {
		return statekv.Versioned{}, err
	}
	op.Source, op.Boot, op.Tried = &from, boot, tried
	t := schemas.Transition{Type: schemas.TResume, Reason: "asked for it", Set: schemas.Set{Op: op, Host: host}}
	if len(tried) > 0 {
		t.Reason = fmt.Sprintf("host %s couldn't resume it; trying host %s", v.Host, host)
	}
	asked, err := s.ask(ctx, v, req, t)
	if err != nil {
		return statekv.Versioned{}, err
	}
	return await(ctx, ch, s.untilRunning(asked))
}

// wayOn says what may be done with a session that failed.
func wayOn(v statekv.Versioned) string {
	if v.Head == nil {
		return startAgain(v.Name())
	}
	return fmt.Sprintf("`diapause resume %s` tries its last snapshot again", v.Name())
}

// startAgain says how a session is started from its command.
func startAgain(n schemas.Name) string {
	return fmt.Sprintf("`diapause resume --clean %s` starts its command again", n)
}
