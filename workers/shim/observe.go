package shim

import (
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/tree"
)

// observe tells what the session does now.
func (t *processes) observe() (driver.Observation, error) {
	var o driver.Observation
	pids, err := t.pids()
	if err != nil {
		return o, err
	}
	o.Processes = len(pids)
	if o.RSS, err = tree.Memory(pids); err != nil {
		return o, err
	}
	if o.CPU, err = t.group.CPU(); err != nil {
		return o, err
	}
	connections, listens, err := tree.TCP(pids)
	if err != nil {
		return o, err
	}
	o.Listens = listens
	for _, c := range connections {
		if c.Inbound && c.Established {
			o.Inbound++
		}
	}
	o.Execs = len(t.execs())
	o.Foreground = t.foreground()
	o.Commands = t.main.shown.typed()
	return o, nil
}

// foreground names the job in the foreground of the session's terminal, if that
// is not the leader itself.
func (t *processes) foreground() string {
	if t.main.tty == nil {
		return ""
	}
	pgrp := t.main.tty.foreground()
	if pgrp == 0 || within(pgrp) == t.leader {
		return ""
	}
	return comm(pgrp)
}
