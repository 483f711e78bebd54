package api

import (
	"context"
	"errors"
	"slices"
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
	PlaceAmong(ctx context.Context, hosts []fleet.Host, w fleet.Want) (schemas.HostID, schemas.Fingerprint, error)
	Gone(h schemas.HostID) (since time.Time, gone bool)
	// Stays reports whether a session goes on on its own host, if that is there.
	Stays(r schemas.SessionRecord) bool
	Hosts(ctx context.Context) ([]fleet.Host, error)
}

// wantNew says what a new session needs of its host. One that begins from a snapshot needs a host
// that can take that.
func (s *placement) wantNew(ctx context.Context, n schemas.Name, fresh schemas.NewSession, from *schemas.Head, req request) (fleet.Want, error) {
	w := fleet.Want{Session: n, Placement: fresh.Placement, Need: schemas.Fingerprint{Driver: fresh.Driver}, Knows: fresh.Needs, Prefer: s.host}
	if req.Run != nil {
		w.Only = req.Run.Host
	}
	if from == nil {
		return w, nil
	}
	var err error
	w.Need, err = s.needOf(ctx, n, *from)
	return w, err
}

// place chooses a host, and its driver, by its fingerprint, if none is asked for.
func (s *placement) place(ctx context.Context, w fleet.Want, tried []schemas.HostID) (schemas.HostID, schemas.Fingerprint, error) {
	w.Not = slices.Concat(w.Not, tried)
	host, with, err := s.fleet.Place(ctx, w)
	if err != nil {
		return "", with, noHost(w.Session, err)
	}
	return host, with, nil
}

// among is place among hosts that were listed a moment ago.
func (s *placement) among(ctx context.Context, hosts []fleet.Host, w fleet.Want, not []schemas.HostID) (schemas.HostID, schemas.Fingerprint, error) {
	w.Not = slices.Concat(w.Not, not)
	host, with, err := s.fleet.PlaceAmong(ctx, hosts, w)
	if err != nil {
		return "", with, noHost(w.Session, err)
	}
	return host, with, nil
}

// wantQueued says what a session that waits for a host needs of it.
func (s *placement) wantQueued(r schemas.SessionRecord) fleet.Want {
	w := fleet.Want{Session: r.Name(), Placement: r.Placement, Need: schemas.Fingerprint{Driver: r.Driver}, Knows: r.Needs, Prefer: s.host}
	if r.Op != nil {
		w.Only = r.Op.Only
	}
	return w
}

// noHost is the refusal of a session that no host can take, with what each of them lacks.
func noHost(n schemas.Name, err error) error {
	return schemas.FailedError(schemas.ReasonNoHost, "place session %s: %v", n, err).WithHint("%s", schemas.HintOf(err))
}

// next chooses where a session goes on: its own host, which may have kept what saves
// time, unless that is gone, cordoned or was tried, or isn't as its placement asks; else any that can take the snapshot, or only
// has its driver if its command starts again (from nil).
func (s *placement) next(ctx context.Context, v statekv.Versioned, from *schemas.Head, tried []schemas.HostID) (schemas.HostID, error) {
	since, gone := s.fleet.Gone(v.Host)
	if v.Host != "" && !gone && len(tried) == 0 && s.fleet.Stays(v.SessionRecord) {
		return v.Host, nil
	}
	need := schemas.Fingerprint{Driver: v.Driver}
	if from != nil {
		var err error
		if need, err = s.needOf(ctx, v.Name(), *from); err != nil {
			return "", err
		}
	}
	host, _, err := s.fleet.Place(ctx, fleet.Want{Session: v.Name(), Placement: v.Placement, Need: need, Knows: v.Needs, Prefer: v.Host, Not: tried})
	if err != nil && gone {
		return "", schemas.FailedError(schemas.ReasonHostGone, "host %s of session %s is gone since %s: %v", v.Host, v.Name(), since.Format(time.RFC3339), err)
	}
	if err != nil {
		return "", noHost(v.Name(), err)
	}
	return host, nil
}

// nowhere refuses to wait for a session that is on its way to run on a host that is gone, if no other
// can take it. It goes on when its host is back.
func (s *placement) nowhere(ctx context.Context, v statekv.Versioned) error {
	if v.Op == nil || !s.lost(v) {
		return nil
	}
	_, err := s.next(ctx, v, v.Op.Source, nil)
	var refused *schemas.APIError
	if errors.As(err, &refused) && refused.Reason == schemas.ReasonHostGone {
		return err
	}
	return nil // one can, or it isn't known
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
	quiet := v.State == schemas.Suspended || v.State == schemas.Exited || v.State == schemas.Failed || v.State == schemas.Template
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
