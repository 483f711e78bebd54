package api

import (
	"context"
	"slices"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// eventJoined tells that somebody asked for what somebody else had begun: the log has one
// transition for both, and one reason.
const eventJoined = "joined"

// joinedLimit bounds saying so, which the one who asked waits for.
const joinedLimit = 5 * time.Second

// Which transitions answer a verb; the others on the way are somebody else's business.
var (
	toRun     = []schemas.TransitionType{schemas.TResume, schemas.TRestart, schemas.TRevived, schemas.TSuspendAborted, schemas.TTakenOver}
	toSuspend = []schemas.TransitionType{schemas.TSuspend}
)

// joining has the reason that a verb was given kept as an event if the log doesn't have
// it: somebody else, often the scheduler, was quicker to begin the same.
func (s *Server) joining(h handler, answers []schemas.TransitionType) handler {
	return func(ctx context.Context, req schemas.Request) (any, error) {
		n, err := schemas.ParseName(req.Name)
		if err != nil || req.Reason == "" {
			return h(ctx, req)
		}
		before, err := s.Records.Get(ctx, n)
		if err != nil {
			return h(ctx, req) // which says so
		}
		out, err := h(ctx, req)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), joinedLimit) // what was joined goes on
		defer cancel()
		if err := s.join(ctx, n, req, before, answers); err != nil {
			s.Log.Warn("why a session was asked for isn't kept", "session", n.String(), "reason", req.Reason, "err", err)
		}
		return out, err
	}
}

func (s *Server) join(ctx context.Context, n schemas.Name, req schemas.Request, before statekv.Versioned, answers []schemas.TransitionType) error {
	revs, err := s.Records.History(ctx, n)
	if err != nil {
		return err
	}
	v, ok := joined(revs, before, req, answers)
	if !ok {
		return nil
	}
	return s.publish.Event(ctx, schemas.Event{
		Type: eventJoined, Tenant: n.Tenant, Session: n.Session, UID: v.UID, Op: v.Transition.Op, Version: v.Version,
		Text: req.Reason, Actor: orDefault(req.Actor, "client"), At: time.Now().UTC(),
	})
}

// joined finds the transition that gave a request what it asked for, if that is neither
// its own nor there before it: since the record was as before, or for the op that was
// under way then.
func joined(revs []statekv.Versioned, before statekv.Versioned, req schemas.Request, answers []schemas.TransitionType) (statekv.Versioned, bool) {
	for _, v := range slices.Backward(revs) {
		t := v.Transition
		since := v.Version > before.Version
		if !since && (before.Op == nil || t.Op != before.Op.ID) {
			break
		}
		if since && t.Actor == orDefault(req.Actor, "client") && t.Reason == req.Reason {
			break // the log has it
		}
		if v.UID == before.UID && slices.Contains(answers, t.Type) {
			return v, true
		}
	}
	return statekv.Versioned{}, false
}

// addJoined shows who else had asked for what a transition began.
func (s *Server) addJoined(ctx context.Context, n schemas.Name, of []schemas.TransitionView) error {
	all, err := stream.EventsOf(ctx, s.JS, s.Names, n, eventJoined)
	if err != nil {
		return err
	}
	for _, e := range all {
		i, found := slices.BinarySearchFunc(of, e.Version, func(t schemas.TransitionView, v uint64) int { return int(t.Version) - int(v) })
		if found {
			of[i].Joined = append(of[i].Joined, schemas.Joined{Actor: e.Actor, Reason: e.Text, At: e.At})
		}
	}
	return nil
}
