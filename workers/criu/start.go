package criu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
)

// Start runs a new session.
func (d *Driver) Start(ctx context.Context, f driver.Fence, spec driver.Spec, begin func(context.Context) error) (driver.Instance, error) {
	if err := d.pass(f); err != nil {
		return driver.Instance{}, err
	}
	if err := checkSpec(spec); err != nil {
		return driver.Instance{}, err
	}
	if err := d.vacant(f); err != nil {
		return driver.Instance{}, err
	}
	state, err := d.start(ctx, f, spec, begin)
	if err != nil {
		return driver.Instance{}, errors.Join(d.ranFirst(f, err), d.discard(f))
	}
	d.watchers.add(f.UID)
	return instanceOf(*state, false), nil
}

func (d *Driver) start(ctx context.Context, f driver.Fence, spec driver.Spec, begin func(context.Context) error) (*shim.State, error) {
	conn, err := d.launch(f, spec, driver.BootClean)
	if err != nil {
		return nil, err
	}
	// Closed before it said that the session runs, it makes the shim undo all.
	defer conn.Close()
	return converse(ctx, conn, f, begin)
}

// ranFirst has the error of a start or a restore say that the session may have executed
// something before it, which its shim notes first: a shim that was killed didn't say so.
func (d *Driver) ranFirst(f driver.Fence, err error) error {
	if _, readErr := d.readState(f.UID); errors.Is(readErr, fs.ErrNotExist) || driver.KindOf(err) == driver.Broken {
		return err
	}
	return &driver.Error{Kind: driver.Broken, Text: fmt.Sprintf("session %s was about to run, or ran, when its shim was killed", f.Name), Err: err}
}

// checkSpec refuses what can't work before anything is made.
func checkSpec(s driver.Spec) error {
	switch {
	case len(s.Command) == 0:
		return &driver.Error{Kind: driver.Refused, Text: "there is no command to run"}
	case s.Network != "" && s.Network != "host" && s.Network != "none":
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the network %q is none of host, none", s.Network)}
	case s.Memory < 0 || s.CPUs < 0 || s.Pids < 0:
		return &driver.Error{Kind: driver.Refused, Text: "a limit is negative"}
	}
	return nil
}

// vacant makes sure that nothing of that uid is here.
func (d *Driver) vacant(f driver.Fence) error {
	_, err := d.status(context.Background(), f.UID)
	if err == nil {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s is on this host already", f.Name)}
	}
	// What a crash left of it is in the way.
	return d.discard(f)
}

func instanceOf(s shim.State, frozen bool) driver.Instance {
	i := driver.Instance{
		UID: s.UID, Name: s.Name, Epoch: s.Epoch, PID: s.PID, Started: s.Started, State: driver.Running,
	}
	switch {
	case s.Exit != nil:
		i.State, i.Exit, i.Lost, i.PID = driver.Exited, s.Exit, s.Lost, 0
	case frozen:
		i.State = driver.Frozen
	}
	return i
}
