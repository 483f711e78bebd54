package api

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// joiner keeps who asked, and why, of requests that the log has no transition for.
type joiner struct {
	board   *board
	log     *slog.Logger
	publish stream.Publisher
	records *statekv.Store
}

// eventJoined tells that a caller asked for what was under way already: the log has one
// transition for both, and one reason.
const eventJoined = "joined"

// joinedLimit bounds saying so, which the one who asked waits for.
const joinedLimit = 5 * time.Second

// answer says what gives a verb what it asks for; what else is under way isn't
// its business.
type answer struct {
	ops         []string // that it joins
	transitions []schemas.TransitionType
}

var (
	toRun = answer{
		[]string{schemas.OpResume, schemas.OpStart},
		[]schemas.TransitionType{schemas.TResume, schemas.TRestart, schemas.TRedeployed, schemas.TRevived, schemas.TSuspendAborted, schemas.TTakenOver},
	}
	toSuspend = answer{[]string{schemas.OpSuspend}, []schemas.TransitionType{schemas.TSuspend}}
)

// joining keeps who asked for a verb, and why, as an event if the log doesn't have it:
// another, often the scheduler, was quicker to begin the same.
func (s *joiner) joining(h handler, to answer) handler {
	return func(ctx context.Context, req request) (any, error) {
		n, err := schemas.ParseName(req.Name)
		if err != nil || req.Reason == "" && s.settled(n) {
			return h(ctx, req)
		}
		before, err := s.records.Get(ctx, n)
		if err != nil {
			return h(ctx, req) // which says so
		}
		out, err := h(ctx, req)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), joinedLimit) // what was joined goes on
		defer cancel()
		if err := s.join(ctx, n, req, before, to); err != nil {
			s.log.Warn("why a session was asked for isn't kept", "session", n.String(), "reason", req.Reason, "err", err)
		}
		return out, err
	}
}

// settled reports whether a session runs and nothing is being done to it: then a verb finds
// what it asks for, or begins it.
func (s *joiner) settled(n schemas.Name) bool {
	r, known := s.board.get(n)
	return !known || r.State == schemas.Running && r.Op == nil
}

func (s *joiner) join(ctx context.Context, n schemas.Name, req request, before statekv.Versioned, to answer) error {
	since, err := s.records.HistorySince(ctx, n, before.Rev)
	if err != nil {
		return err
	}
	op, version := to.joined(since, before.SessionRecord, req)
	if op == "" {
		return nil
	}
	return s.publish.Event(ctx, schemas.Event{
		Type: eventJoined, Tenant: n.Tenant, Session: n.Session, UID: before.UID, Op: op, Version: version,
		Text: req.Reason, Actor: req.by.Actor(), Note: req.by.Note, At: time.Now().UTC(),
	})
}

// joined finds what gave a request what it asked for, if that isn't its own: a transition
// since the record was as before, with the version that it made; or the op that was under
// way then, without one.
func (a answer) joined(since []statekv.Versioned, before schemas.SessionRecord, req request) (op string, version uint64) {
	for _, v := range slices.Backward(since) {
		t := v.Transition
		if v.UID != before.UID || t.Actor == req.by.Actor() && t.Note == req.by.Note && t.Reason == req.Reason {
			return "", 0 // the log has it, or the session is another
		}
		if slices.Contains(a.transitions, t.Type) {
			return t.Op, v.Version
		}
	}
	if before.Op != nil && slices.Contains(a.ops, before.Op.Kind) {
		return before.Op.ID, 0
	}
	return "", 0
}

// addJoined shows who else had asked for what a transition began.
func (s *views) addJoined(ctx context.Context, n schemas.Name, of []schemas.TransitionView) error {
	all, err := stream.EventsOf(ctx, s.js, s.names, n, eventJoined)
	if err != nil {
		return err
	}
	for _, e := range all {
		i := slices.IndexFunc(of, func(t schemas.TransitionView) bool {
			return t.Version == e.Version || e.Version == 0 && t.Op == e.Op // the one that began the op comes first
		})
		if i >= 0 {
			of[i].Joined = append(of[i].Joined, schemas.Joined{Actor: e.Actor, Note: e.Note, Reason: e.Text, At: e.At})
		}
	}
	return nil
}
