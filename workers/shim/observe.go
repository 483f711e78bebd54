package shim

import (
	"context"
	"errors"
	"fmt"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/tree"
)

// observe tells what the session does now.
func (s *session) observe() (driver.Observation, error) {
	var o driver.Observation
	pids, err := s.group.Pids()
	if err != nil {
		return o, fmt.Errorf("list the processes of session %s: %w", s.setup.Name, err)
	}
	o.Processes = len(pids)
	if o.RSS, err = tree.Memory(pids); err != nil {
		return o, err
	}
	if o.CPU, err = s.group.CPU(); err != nil {
		return o, err
	}
	connections, err := tree.Connections(pids)
	if err != nil {
		return o, err
	}
	for _, c := range connections {
		if c.Inbound && c.Established {
			o.Inbound++
		}
	}
	o.Execs = len(s.tree.execs())
	o.Foreground = s.foreground()
	return o, nil
}

// foreground names the job in the foreground of the session's terminal, if that
// is not the leader itself.
func (s *session) foreground() string {
	if s.main.tty == nil {
		return ""
	}
	pgrp := s.main.tty.foreground()
	if pgrp == 0 || within(pgrp) == s.tree.leader {
		return ""
	}
	return comm(pgrp)
}

// blockers tells what can't be captured now.
func (s *session) blockers(ctx context.Context) (Message, error) {
	_, err := s.preflight(ctx)
	var refused *driver.Error
	if errors.As(err, &refused) && len(refused.Blockers) > 0 {
		return Message{Phase: PhaseDone, Blockers: refused.Blockers}, nil
	}
	return Message{Phase: PhaseDone}, err
}
