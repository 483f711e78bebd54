package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/schemas"
)

const (
	inside   = "/tmp/hold" // the program in the session
	atSocket = "/tmp/hold.sock"
	patience = 2 * time.Minute
)

// Session measures a session of that many megabytes: a suspend of which nothing
// is in the store yet and its resume, then a second pair after a sixteenth of the
// memory has changed.
func Session(ctx context.Context, d *local.Daemon, hold string, mb int, name string) (all []Measurement, err error) {
	s, err := start(ctx, d, hold, mb, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Remove(context.WithoutCancel(ctx))) }()
	for _, what := range []string{"first", "again"} {
		if what == "again" {
			if _, err := s.Exec(ctx, "", inside, "ask", atSocket, "touch"); err != nil {
				return nil, err
			}
		}
		pair, err := cycle(ctx, s, mb, what)
		if err != nil {
			return nil, fmt.Errorf("session of %d MB, %s suspend: %w", mb, what, err)
		}
		all = append(all, pair...)
	}
	return all, nil
}

// start copies the program into a new session and waits until its memory is full.
func start(ctx context.Context, d *local.Daemon, hold string, mb int, name string) (*local.Session, error) {
	binary, err := os.ReadFile(hold)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	script := "until [ -e /tmp/go ]; do sleep 0.05; done; exec " + inside + " keep " + strconv.Itoa(mb) + " " + atSocket
	s, err := d.Run(ctx, name, []string{"--network", "none"}, "/bin/sh", "-c", script)
	if err != nil {
		return nil, err
	}
	if _, err := s.Exec(ctx, string(binary), "/bin/sh", "-c", "cat >"+inside+" && chmod 755 "+inside+" && touch /tmp/go"); err != nil {
		return nil, err
	}
	_, err = s.Until(ctx, patience, "test -S "+atSocket)
	return s, err
}

func cycle(ctx context.Context, s *local.Session, mb int, what string) ([]Measurement, error) {
	was, err := s.Exec(ctx, "", inside, "ask", atSocket, "sum")
	if err != nil {
		return nil, err
	}
	down := Measurement{Op: "Suspend", MB: mb, Who: "diapause", What: what}
	begin := time.Now()
	v, err := s.Suspend(ctx)
	if err != nil {
		return nil, err
	}
	down.Total = time.Since(begin)
	if v.Snapshot != nil {
		down.Stored = v.Snapshot.StoredBytes
	}
	if down.Stages, err = stages(ctx, s, schemas.TSuspended); err != nil {
		return nil, err
	}
	up := Measurement{Op: "Resume", MB: mb, Who: "diapause", What: what}
	begin = time.Now()
	if _, err := s.Ensure(ctx); err != nil {
		return nil, err
	}
	up.Total = time.Since(begin)
	if up.Stages, err = stages(ctx, s, schemas.TResumed); err != nil {
		return nil, err
	}
	is, err := s.Exec(ctx, "", inside, "ask", atSocket, "sum")
	if err != nil {
		return nil, err
	}
	if was != is {
		return nil, fmt.Errorf("the memory's digest was %s and is %s", was, is)
	}
	return []Measurement{down, up}, nil
}

func stages(ctx context.Context, s *local.Session, t schemas.TransitionType) ([]Stage, error) {
	last, err := s.Last(ctx, t)
	if err != nil {
		return nil, err
	}
	var all []Stage
	for _, st := range last.Stages {
		all = append(all, Stage{st.Name, time.Duration(st.MS) * time.Millisecond})
	}
	return all, nil
}
