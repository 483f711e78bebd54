package api

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
)

// placement chooses the hosts of sessions.
type placement struct {
	fleet   Fleet
	images  objectstore.Store
	trusted image.Trusted
	host    schemas.HostID // which is preferred; none if empty
}

// Fleet knows the hosts. *fleet.Fleet is one.
type Fleet interface {
	Place(ctx context.Context, w fleet.Want) (schemas.HostID, schemas.Fingerprint, error)
	Gone(h schemas.HostID) (since time.Time, gone bool)
}

// place chooses the host of a new session, and its driver, by its fingerprint, if none is asked for. One that
// begins from a snapshot needs a host that can take that.
func (s *placement) place(ctx context.Context, driver schemas.DriverName, n schemas.Name, from *schemas.Head, req request, tried []schemas.HostID) (schemas.HostID, schemas.Fingerprint, error) {
	w := fleet.Want{Need: schemas.Fingerprint{Driver: driver}, Prefer: s.host, Not: tried}
	if from != nil {
		var err error
		if w.Need, err = s.needOf(ctx, n, *from); err != nil {
			return "", w.Need, err
		}
	}
	if req.Run != nil {
		w.Only = req.Run.Host
	}
	host, with, err := s.fleet.Place(ctx, w)
	if err != nil {
		return "", with, schemas.FailedError(schemas.ReasonNoHost, "place session %s: %v", n, err)
	}
	return host, with, nil
}

// next chooses where a session goes on: its own host, which may have kept what saves
// time, unless that is gone or was tried; else any that can take the snapshot, or only
// has its driver if its command starts again (from nil).
func (s *placement) next(ctx context.Context, v statekv.Versioned, from *schemas.Head, tried []schemas.HostID) (schemas.HostID, error) {
	since, gone := s.fleet.Gone(v.Host)
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
	host, _, err := s.fleet.Place(ctx, fleet.Want{Need: need, Not: tried})
	if err != nil && gone {
		return "", schemas.FailedError(schemas.ReasonHostGone, "host %s of session %s is gone since %s: %v", v.Host, v.Name(), since.Format(time.RFC3339), err)
	}
	if err != nil {
		return "", schemas.FailedError(schemas.ReasonNoHost, "place session %s: %v", v.Name(), err)
	}
	return host, nil
}

// needOf gives what a host needs to go on from a snapshot.
func (s *placement) needOf(ctx context.Context, n schemas.Name, from schemas.Head) (schemas.Fingerprint, error) {
	h, err := image.Inspect(ctx, s.images, from, image.ReadOptions{Trusted: s.trusted, Expect: image.Expect{Tenant: n.Tenant}})
	if err != nil {
		return schemas.Fingerprint{}, schemas.FailedError(schemas.ReasonUnreadable, "inspect the snapshot of session %s: %v", n, err)
	}
	return h.Fingerprint, nil
}

// remover gives the host that removes a session in the place of its own, if that is gone
// and nothing of the session ran there: what it left is in the store. Its own host
// removes what it kept when it is back. "" is its own.
func (s *placement) remover(ctx context.Context, v statekv.Versioned, t schemas.TransitionType) schemas.HostID {
	quiet := v.State == schemas.Suspended || v.State == schemas.Exited || v.State == schemas.Failed
	if t != schemas.TRemove || !quiet || !s.lost(v) {
		return ""
	}
	host, _, err := s.fleet.Place(ctx, fleet.Want{Need: schemas.Fingerprint{Driver: v.Driver}, Prefer: s.host})
	if err != nil {
		return "" // it waits for its own
	}
	return host
}

// stranded says of a session that should run that its host is gone; nil if it isn't, or
// if another host is about to take the session over.
func (s *placement) stranded(v statekv.Versioned) error {
	since, gone := s.fleet.Gone(v.Host)
	if !gone || v.OnLoss == schemas.LossResume && v.Head != nil {
		return nil
	}
	what := "it was made to wait for it"
	if v.OnLoss == schemas.LossResume {
		what = "it was never captured, so no other host can resume it"
	}
	return schemas.StateError(schemas.ReasonHostGone, "session %s is %s; host %s is gone since %s: %s", v.Name(), v.State, v.Host, since.Format(time.RFC3339), what)
}

// lost reports whether a session's host is gone.
func (s *placement) lost(v statekv.Versioned) bool {
	_, gone := s.fleet.Gone(v.Host)
	return gone
}
