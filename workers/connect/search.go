package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/schemas"
)

// Searcher searches what was recorded of sessions.
type Searcher interface {
	// Search calls found with the lines that are looked for, the last one first, and note with what is to be said of sessions that
	// couldn't be searched.
	Search(ctx context.Context, q attach.Search, of []attach.Searched, found func(attach.Found) error, note func(string) error) error
	// Rebuild makes the index of a session again.
	Rebuild(ctx context.Context, n schemas.Name) error
}

// search answers a client that searches sessions. Who may connect to the sessions of this host may.
func (s *Server) search(ctx context.Context, conn net.Conn, grant *direct.Grant) error {
	if grant != nil || s.Searcher == nil {
		return errors.New("nothing can be searched by this connection")
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	req, err := attach.ReadRequest(conn)
	if err != nil {
		return err
	}
	if req.Op != attach.OpSearch || req.Search == nil {
		return fmt.Errorf("a search is asked for %.20q", req.Op)
	}
	of, err := attach.ReadSearched(conn)
	if err != nil {
		return err
	}
	if err := within(req.Search.Scope, of); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the client sends no more: what ends this read is its going
		_, _, _ = attach.ReadFrame(conn)
		cancel()
	}()
	if err := attach.WriteFrame(conn, attach.FrameStarted, nil); err != nil {
		return err
	}
	note := func(text string) error {
		return attach.WriteFrame(conn, attach.FrameStderr, []byte(strings.ToValidUTF8(text, "?")+"\n"))
	}
	if req.Search.Rebuild {
		err = s.rebuild(ctx, of, note)
	} else {
		err = s.Searcher.Search(ctx, *req.Search, of, func(f attach.Found) error { return sendFound(conn, f) }, note)
	}
	if err != nil {
		return err
	}
	return attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{})
}

// within refuses a list that has a session out of a scope: the client has mixed up its callers. Nothing is opened then.
func within(scope *attach.Scope, of []attach.Searched) error {
	for _, one := range of {
		n, err := schemas.ParseName(one.Name)
		if err != nil {
			return err
		}
		if !scope.Has(n) {
			return errors.New("a session that isn't the caller's is to be searched")
		}
	}
	return nil
}

// rebuild makes the indexes of sessions again.
func (s *Server) rebuild(ctx context.Context, of []attach.Searched, note func(string) error) error {
	for _, one := range of {
		n, err := schemas.ParseName(one.Name)
		if err == nil {
			err = s.Searcher.Rebuild(ctx, n)
		}
		if err != nil && ctx.Err() == nil {
			err = note(err.Error())
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// sendFound sends a line that was found.
func sendFound(conn net.Conn, f attach.Found) error {
	b, err := json.Marshal(f)
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
