package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Recording is what was recorded of a session's terminal.
type Recording interface {
	// Span gives the positions in the output from and up to which there is a recording, 0 if there is none.
	Span() (start, end int64)
	// Each calls fn with the events of and after a moment.
	Each(ctx context.Context, since time.Time, fn func(recording.Event) error) error
	// From calls fn with the events from the last frame before a moment on; found is false if that is before what was opened.
	From(ctx context.Context, at time.Time, fn func(recording.Event) error) (found bool, err error)
	// Began gives when the first event was.
	Began() time.Time
	// Why says why the beginning is missing; nil if nothing is.
	Why() error
	// After says what is wrong with what comes after the end; nil if nothing does.
	After() error
}

// asksFirst reads the request of a client that only listens; nil of others. Unless the client wants what was recorded, or shown,
// the session can read it from the connection once more.
func (s *Server) asksFirst(ctx context.Context, conn net.Conn, hello attach.Hello, grant *direct.Grant) (net.Conn, *attach.Request, error) {
	if grant != nil || hello.Presence || hello.Input || hello.Forward {
		return conn, nil, nil
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	req, err := attach.ReadRequest(conn)
	if err != nil {
		return conn, nil, err
	}
	if ofKept(&req) != nil {
		return conn, &req, nil
	}
	var b bytes.Buffer
	if err := attach.WriteJSON(&b, attach.FrameRequest, req); err != nil {
		return conn, nil, err
	}
	return again{conn, &b}, &req, nil
}

// ofKept gives a request for what was recorded, or is shown, or a desktop showed; nil of another.
func ofKept(req *attach.Request) *attach.Request {
	if req != nil && (req.Op == attach.OpOutput && req.History != nil || req.Op == attach.OpScreen || req.Op == attach.OpPicture) {
		return req
	}
	return nil
}

// again is a connection of which the request was read.
type again struct {
	net.Conn
	first *bytes.Buffer
}

func (c again) Read(p []byte) (int, error) {
	if c.first.Len() > 0 {
		return c.first.Read(p)
	}
	return c.Conn.Read(p)
}

// Gone and CloseWrite are those of the connection below.
func (c again) Gone() bool { return gone(c.Conn) }

func (c again) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}

// showAll answers such a request.
func (s *Server) showAll(ctx context.Context, conn net.Conn, d driver.Dialer, r schemas.SessionRecord, req attach.Request) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // of a client that reads nothing
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the client sends nothing: what ends this read is its going
		_, _, _ = attach.ReadFrame(conn)
		cancel()
	}()
	switch req.Op {
	case attach.OpScreen:
		return s.screen(ctx, conn, d, r)
	case attach.OpPicture:
		jpeg, err := s.Picture(ctx, r)
		if err != nil {
			return err
		}
		return attach.SendPicture(conn, jpeg)
	}
	return s.history(ctx, conn, d, r, req)
}

// screen sends what a session's terminal shows, or showed last.
func (s *Server) screen(ctx context.Context, conn net.Conn, d driver.Dialer, r schemas.SessionRecord) error {
	up, err := d.Dial(ctx, r.UID)
	if errors.Is(err, driver.ErrNotHere) {
		head, paint, err := s.Shown(ctx, r)
		if err != nil {
			return err
		}
		return attach.SendScreen(conn, head, paint)
	}
	if err != nil {
		return fmt.Errorf("connect to session %s: %w", r.Name(), err)
	}
	defer up.Close()
	head, paint, err := attach.FetchScreen(up)
	if err != nil {
		return err
	}
	return attach.SendScreen(conn, head, paint)
}

// history sends a client what was recorded of a session, what is kept beyond that, and what follows if it asks for that.
func (s *Server) history(ctx context.Context, conn net.Conn, d driver.Dialer, r schemas.SessionRecord, req attach.Request) error {
	if req.History.Spec {
		return s.howItRuns(ctx, conn, r)
	}
	if h := req.History; h.Commands == 0 && h.Command == 0 { // else it is said later
		if err := attach.WriteFrame(conn, attach.FrameStarted, nil); err != nil {
			return err
		}
	}
	if req.History.Commands != 0 || req.History.Command != 0 {
		return s.typed(ctx, conn, r, *req.History)
	}
	if req.History.Events {
		return s.events(ctx, conn, r, *req.History)
	}
	out := &shower{to: conn, times: req.History.Times, clock: unknown}
	exit, err := s.showHistory(ctx, out, d, r, req)
	if errors.Is(err, errSuspended) {
		return nil // the connection ends without a last frame
	}
	if err != nil {
		return err
	}
	return attach.WriteJSON(conn, attach.FrameExit, exit)
}

func (s *Server) showHistory(ctx context.Context, out *shower, d driver.Dialer, r schemas.SessionRecord, req attach.Request) (schemas.ExitStatus, error) {
	at, err := s.showRecorded(ctx, out, d, r, req.History.Since)
	if err != nil {
		return schemas.ExitStatus{}, err
	}
	if at > 0 {
		out.clock = time.Now // what isn't sealed yet has just come
	}
	return s.showKept(ctx, out, d, r, span{at, math.MaxInt64}, req.Follow)
}

// events sends the events of a recording.
func (s *Server) events(ctx context.Context, conn net.Conn, r schemas.SessionRecord, h attach.History) error {
	since := h.Since
	if h.After > 0 {
		since = time.Time{}
	}
	rec, err := s.Recorded(ctx, r, since)
	if err != nil {
		return err
	}
	if _, end := rec.Span(); end == 0 {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("nothing was recorded of session %s", r.Name())}
	}
	if err := (&shower{to: conn}).whatIsMissing(rec); err != nil {
		return err
	}
	send := func(e recording.Event) error { return sendEvent(conn, e) }
	if h.After > 0 {
		since = rec.Began().Add(h.After)
	}
	if h.Framed && !since.IsZero() {
		err = s.eventsFrom(ctx, r, rec, since, send)
	} else {
		err = rec.Each(ctx, since, send)
	}
	if err != nil {
		return err
	}
	return attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{})
}

// eventsFrom sends events from the last frame before a moment on, and the moment first.
func (s *Server) eventsFrom(ctx context.Context, r schemas.SessionRecord, rec Recording, at time.Time, send func(recording.Event) error) error {
	if err := send(recording.Event{Time: at, Code: attach.CodeFrom}); err != nil {
		return err
	}
	found, err := rec.From(ctx, at, send)
	if err != nil || found {
		return err
	}
	if rec, err = s.Recorded(ctx, r, time.Time{}); err != nil {
		return err
	}
	_, err = rec.From(ctx, at, send)
	return err
}

// sendEvent sends an event as a line of JSON.
func sendEvent(conn net.Conn, e recording.Event) error {
	line := attach.Event{Time: e.Time, At: e.At, Code: string(e.Code), Text: string(e.Data)}
	if !utf8.Valid(e.Data) {
		line.Text, line.Base64 = "", e.Data
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(append(b, '\n'), attach.MaxFrame) {
		if err := attach.WriteFrame(conn, attach.FrameStdout, part); err != nil {
			return err
		}
	}
	return nil
}

// span is a part of the output, by its positions.
type span struct{ from, to int64 }

// showRecorded sends what was recorded, and gives the position at which that ends. Without the recording what is kept
// beside it is better than nothing: the client is told. What was printed before the recording began is shown if it is kept.
func (s *Server) showRecorded(ctx context.Context, out *shower, d driver.Dialer, r schemas.SessionRecord, since time.Time) (int64, error) {
	rec, err := s.Recorded(ctx, r, since)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, out.note(fmt.Sprintf("the recording can't be read: %v", err))
	}
	if err := out.whatIsMissing(rec); err != nil {
		return 0, err
	}
	start, end := rec.Span()
	if start > 0 && since.IsZero() {
		if _, err := s.showKept(ctx, out, d, r, span{0, start}, false); err != nil {
			return 0, err
		}
	}
	return end, rec.Each(ctx, since, out.event)
}

// showKept sends what is kept of a part of the output: by the session that runs here, or else where
// it was kept when it was suspended or ended.
func (s *Server) showKept(ctx context.Context, out *shower, d driver.Dialer, r schemas.SessionRecord, of span, follow bool) (schemas.ExitStatus, error) {
	up, err := d.Dial(ctx, r.UID)
	if errors.Is(err, driver.ErrNotHere) {
		return schemas.ExitStatus{}, s.showImage(ctx, out, r, of)
	}
	if err != nil {
		return schemas.ExitStatus{}, fmt.Errorf("connect to session %s: %w", r.Name(), err)
	}
	defer up.Close()
	stop := context.AfterFunc(ctx, func() { up.Close() })
	defer stop()
	err = attach.WriteJSON(up, attach.FrameRequest, attach.Request{Op: attach.OpOutput, Tail: -1, Follow: follow, Positions: true, Seen: of.from})
	if err != nil {
		return schemas.ExitStatus{}, err
	}
	return out.follow(up, of)
}

// showImage sends what was kept of a part of the output when a session was suspended or ended.
func (s *Server) showImage(ctx context.Context, out *shower, r schemas.SessionRecord, of span) error {
	data, err := s.Output(ctx, r, attach.OutputEntry)
	if err != nil {
		if of.from > 0 || of.to < math.MaxInt64 {
			return nil // there is a recording
		}
		return err
	}
	log, err := backlog.Decode(data, attach.OutputKept)
	if err != nil {
		return err
	}
	log.End()
	if of.from > 0 {
		out.clock = func() time.Time { return r.Since }
	}
	start, _ := log.Span()
	if err := out.begin(of, start); err != nil {
		return err
	}
	for at := max(of.from, start); ; {
		stream, b, next, err := log.Next(ctx, at)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := out.part(stream, b); err != nil {
			return err
		}
		at = next
	}
}
