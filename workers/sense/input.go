package sense

import (
	"context"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// inputDue reports whether a look tells of input on a desktop that wasn't said yet. What came while an operation is under way isn't said:
// that would undo a suspend which someone has asked for since.
func inputDue(look sighting, busy bool) bool {
	return !busy && look.seen.Input.After(look.input)
}

// used says that someone typed, or moved the pointer, on a session's desktop.
func (s *Sensor) used(ctx context.Context, v statekv.Versioned, look sighting) {
	if !inputDue(look, v.Op != nil) {
		return
	}
	a := schemas.Activity{Reason: "its desktop is used by a VNC client", By: "worker@" + string(s.Host)}
	if _, err := s.Bus.Activity(ctx, v.Name(), schemas.KindInput, "", a); err != nil {
		s.Log.Warn("could not publish that a desktop is used", v.Logged("err", err)...)
		return
	}
	s.said(v.UID, func(now *sighting) { now.input = look.seen.Input })
}

// said keeps what was published of a session that is still looked at.
func (s *Sensor) said(uid schemas.UID, keep func(now *sighting)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.observed[uid]; ok {
		keep(&now)
		s.observed[uid] = now
	}
}
