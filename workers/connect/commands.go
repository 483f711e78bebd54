package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Commands are those of a session's terminal.
type Commands interface {
	// Each calls fn with the commands, the last one first.
	Each(ctx context.Context, fn func(schemas.TypedCommand) error) error
	// Missing says what Each passed over: commands that weren't kept, and lists that can't be read. With none of those, why says that
	// there were older ones, if so.
	Missing() (dropped, lists int, why error)
}

// typed sends the commands of a session, or the output of one of them.
func (s *Server) typed(ctx context.Context, conn net.Conn, r schemas.SessionRecord, h attach.History) error {
	all, err := s.Commands(ctx, r)
	if err != nil {
		return err
	}
	if h.Command != 0 {
		return s.outputOf(ctx, conn, r, all, h.Command)
	}
	if err := attach.WriteJSON(conn, attach.FrameStarted, attach.Kept{Commands: true}); err != nil {
		return err
	}
	n := 0
	err = all.Each(ctx, func(c schemas.TypedCommand) error {
		b, err := json.Marshal(c)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(append(b, '\n'), attach.MaxFrame) {
			if err := attach.WriteFrame(conn, attach.FrameStdout, part); err != nil {
				return err
			}
		}
		if n++; n == h.Commands {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	out := shower{to: conn}
	if err := out.passedOver(all); err != nil {
		return err
	}
	return attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{})
}

// errEnough: no more is wanted.
var errEnough = errors.New("enough")

// passedOver tells the client which commands are missing.
func (w *shower) passedOver(all Commands) error {
	dropped, lists, why := all.Missing()
	if dropped > 0 {
		if err := w.note(fmt.Sprintf("%d commands were not kept: too many at once", dropped)); err != nil {
			return err
		}
	}
	switch {
	case lists == 0 && why != nil:
		return w.note(why.Error())
	case lists > 0:
		return w.note(fmt.Sprintf("commands are missing: %d of their lists can't be read: %v", lists, why))
	}
	return nil
}

// outputOf sends the output of a command.
func (s *Server) outputOf(ctx context.Context, conn net.Conn, r schemas.SessionRecord, all Commands, number int64) error {
	var found *schemas.TypedCommand
	err := all.Each(ctx, func(c schemas.TypedCommand) error {
		if c.Number == number {
			found = &c
		}
		if c.Number <= number {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if found == nil {
		if err := attach.WriteJSON(conn, attach.FrameStarted, attach.Kept{Commands: true, None: true}); err != nil {
			return err
		}
		if dropped, lists, why := all.Missing(); dropped > 0 || lists > 0 || why != nil {
			return refused(r, fmt.Sprintf("session %s has no command %d, or it wasn't kept", r.Name(), number), why)
		}
		return refused(r, fmt.Sprintf("session %s has no command %d", r.Name(), number), nil)
	}
	of := span{found.From, found.To}
	if found.Running() {
		of.to = math.MaxInt64
	}
	rec, err := s.RecordedFrom(ctx, r, of.from)
	if err != nil {
		return err
	}
	start, _ := rec.Span()
	if start >= of.to && of.to > of.from {
		return refused(r, fmt.Sprintf("the output of command %d isn't kept any more", number), nil)
	}
	if err := attach.WriteJSON(conn, attach.FrameStarted, attach.Kept{Commands: true, Command: found}); err != nil {
		return err
	}
	if err := (&excerpt{shower{to: conn}, of, of.from}).show(ctx, rec); err != nil {
		return err
	}
	return attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{})
}

func refused(r schemas.SessionRecord, text string, why error) error {
	return &driver.Error{Kind: driver.Refused, Text: text, Err: why, Hint: fmt.Sprintf("`diapause commands %s` lists them", r.Name())}
}

// excerpt sends a part of what was recorded.
type excerpt struct {
	shower
	of span
	at int64 // what comes next
}

func (p *excerpt) show(ctx context.Context, rec Recording) error {
	err := rec.Each(ctx, time.Time{}, p.event)
	if errors.Is(err, errEnough) {
		return nil
	}
	if err != nil {
		return err
	}
	_, end := rec.Span()
	if p.of.to < math.MaxInt64 && end < p.of.to {
		return p.note("the rest of the output isn't recorded yet, or can't be read")
	}
	return nil
}

// event sends what is in the part of an event.
func (p *excerpt) event(e recording.Event) error {
	if e.At >= p.of.to {
		return errEnough
	}
	n := e.Length()
	from, to := max(e.At, p.of.from), min(e.At+n, p.of.to)
	if from >= to {
		return nil
	}
	if from > p.at {
		if err := p.missing(from - p.at); err != nil {
			return err
		}
	}
	p.at = to
	switch e.Code {
	case recording.Gap:
		return p.missing(to - from)
	case recording.Output:
		return p.write(backlog.Out, e.Data[from-e.At:to-e.At], e.Time)
	}
	return nil // what Diapause wrote beside it
}
