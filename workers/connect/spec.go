package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/marks"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// howItRuns sends how a session is run, in the directory that its terminal was in last. Who may ask for that may run commands in
// it as well, and see its environment there.
func (s *Server) howItRuns(ctx context.Context, conn net.Conn, r schemas.SessionRecord) error {
	if r.Origin != nil && r.Origin.Imported != "" {
		return fmt.Errorf("session %s was imported: it never ran here", r.Name())
	}
	spec, err := s.Spec(r)
	if err != nil {
		return err
	}
	dir, err := s.lastDir(ctx, r)
	if err != nil {
		note := (&shower{to: conn}).note("the directory that it was in last can't be read: " + err.Error())
		if err := errors.Join(ctx.Err(), note); err != nil {
			return err
		}
	}
	if dir != "" {
		spec.Dir = dir
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := attach.WriteJSON(conn, attach.FrameStarted, attach.Kept{Commands: true, Spec: true}); err != nil {
		return err
	}
	for part := range slices.Chunk(b, attach.MaxFrame) {
		if err := attach.WriteFrame(conn, attach.FrameStdout, part); err != nil {
			return err
		}
	}
	return attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{})
}

// lastDir gives the directory that a shell in a session's terminal said last that it is in; "" if none said so. It reads what was
// recorded from the last command on, which is where the directory may have changed since.
func (s *Server) lastDir(ctx context.Context, r schemas.SessionRecord) (string, error) {
	all, err := s.Commands(ctx, r)
	if err != nil {
		return "", err
	}
	var last *schemas.TypedCommand
	err = all.Each(ctx, func(c schemas.TypedCommand) error {
		last = &c
		return errEnough
	})
	if last == nil || err != nil && !errors.Is(err, errEnough) {
		return "", err
	}
	from := last.To
	if last.Running() {
		from = last.From
	}
	var at marks.Tracker
	at.Resume(marks.State{Dir: last.Dir})
	rec, err := s.RecordedFrom(ctx, r, from)
	if err != nil {
		return last.Dir, err
	}
	err = rec.Each(ctx, time.Time{}, func(e recording.Event) error {
		if n := e.Length(); e.Code == recording.Output && e.At+n > from {
			at.Write(e.Data[max(from-e.At, 0):], max(e.At, from), e.Time, "", func(schemas.TypedCommand) {})
		}
		return nil
	})
	return at.State().Dir, err
}
