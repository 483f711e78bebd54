package criu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
)

// Start runs a new session.
func (d *Driver) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
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
		return driver.Instance{}, d.undone(ctx, f, err)
	}
	d.watchers.add(f.UID)
	return instanceOf(*state, false), nil
}

func (d *Driver) start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (*shim.State, error) {
	conn, err := d.launch(f, spec, schemas.BootClean)
	if err != nil {
		return nil, err
	}
	// Closed before it said that the session runs, it makes the shim undo all.
	defer conn.Close()
	return converse(ctx, conn, f, begin)
}

// undone removes what a start or a restore that failed has left here. A session that may
// have executed something, which its shim notes first, stays as lost until Stop, and the
// error says so: this process may end before it has told anybody, and who comes next must
// not begin it again from the same image as if it hadn't.
func (d *Driver) undone(ctx context.Context, f driver.Fence, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardWait)
	defer cancel()
	err := d.emptied(ctx, f) // or its shim might still write
	if _, readErr := d.readState(f.UID); errors.Is(readErr, fs.ErrNotExist) {
		if err == nil {
			err = d.remove(ctx, f.UID)
		}
		return errors.Join(cause, err)
	}
	if err == nil {
		_, err = d.bury(ctx, f.UID)
	}
	if driver.KindOf(cause) != driver.Broken {
		cause = &driver.Error{Kind: driver.Broken, Text: fmt.Sprintf("session %s was about to run, or ran, when its shim was killed", f.Name), Err: cause}
	}
	return errors.Join(cause, err, d.options.Failpoints.At(ctx, failpoint.CriuLost))
}

// checkSpec refuses what can't work before anything is made.
func checkSpec(s schemas.Spec) error {
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
