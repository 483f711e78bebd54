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
	Place(ctx context.Context, w fleet.Want) (schemas.HostID, string, error)
	Gone(h schemas.HostID) (since time.Time, gone bool)
}

// place chooses the host of a new session, and its driver if none is asked for.
func (s *Server) place(ctx context.Context, driver string, req schemas.Request) (schemas.HostID, string, error) {
	w := fleet.Want{Need: schemas.Fingerprint{Driver: driver}, Prefer: s.Host}
	if req.Run != nil {
		w.Only = req.Run.Host
	}
	host, d, err := s.Fleet.Place(ctx, w)
	if err != nil {
		return "", "", failed("%v", err)
	}
	return host, d, nil
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
		h, err := image.Inspect(ctx, s.Images, *from, image.ReadOptions{Trusted: s.Trusted, Expect: image.Expect{Tenant: v.Tenant}})
		if err != nil {
			return "", failed("look at the snapshot of session %s: %v", v.Name(), err)
		}
		need = h.Fingerprint
	}
	host, _, err := s.Fleet.Place(ctx, fleet.Want{Need: need, Not: tried})
	if err != nil && gone {
		return "", failed("host %s of session %s is gone since %s: %v", v.Host, v.Name(), since.Format(time.RFC3339), err)
	}
	return host, err
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
	return refused("session %s is %s on host %s, which is gone since %s: %s", v.Name(), v.State, v.Host, since.Format(time.RFC3339), what)
}

// lost reports whether a session's host is gone.
func (s *Server) lost(v statekv.Versioned) bool {
	_, gone := s.Fleet.Gone(v.Host)
	return gone
}

// askResume has a session go on from a snapshot, on one host after the other as long as
// there is another one, and waits until it runs. The error is that of the first.
func (s *Server) askResume(ctx context.Context, v statekv.Versioned, req schemas.Request, from schemas.Head, boot string, ch <-chan statekv.Versioned) (statekv.Versioned, error) {
	var tried []schemas.HostID
	var first error
	for {
		host, err := s.home(ctx, v, &from, tried)
		if err != nil {
			return v, firstOf(first, err)
		}
		op, err := s.newOp(ctx, schemas.OpResume)
		if err != nil {
			return v, firstOf(first, err)
		}
		op.Source, op.Boot = &from, boot
		t := schemas.Transition{Type: schemas.TResume, Reason: "asked for it", Set: schemas.Set{Op: op, Host: host}}
		if first != nil {
			t.Reason = fmt.Sprintf("host %s couldn't resume it; trying host %s", v.Host, host)
		}
		asked, err := s.ask(ctx, v, req, t)
		if err != nil {
			return v, firstOf(first, err)
		}
		got, err := await(ctx, ch, s.untilRunning(asked))
		var refusal *schemas.APIError
		if again := errors.As(err, &refusal) && got.State == schemas.Suspended && got.Failure != nil && got.Failure.Op == schemas.OpResume; !again {
			return got, err
		}
		v, tried, first = got, append(tried, got.Host), firstOf(first, err)
	}
}

func firstOf(first, err error) error {
	if first != nil {
		return first
	}
	return err
}
