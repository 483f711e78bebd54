package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recovery"
)

// drivers are the drivers of this host.
type drivers struct {
	host   schemas.HostID
	byName map[schemas.DriverName]driver.Driver
	lacks  map[schemas.DriverName]string // by name: why the host hasn't got a driver that it could have
}

// of gives the driver of a session.
func (d drivers) of(r schemas.SessionRecord) (driver.Driver, error) {
	found, ok := d.byName[r.Driver]
	if !ok {
		text := fmt.Sprintf("host %s has no driver %q", d.host, r.Driver)
		if why := d.lacks[r.Driver]; why != "" {
			text += ": " + why
		}
		return nil, &driver.Error{Kind: driver.Refused, Text: text}
	}
	return found, nil
}

// toRun is of for what has a session run. It refuses one that needs what this version doesn't know.
func (d drivers) toRun(r schemas.SessionRecord) (driver.Driver, error) {
	if unknown := schemas.Unknown(r.Needs); len(unknown) > 0 {
		return nil, &driver.Error{
			Kind: driver.Refused, Text: fmt.Sprintf("the Diapause of host %s is too old for %q", d.host, unknown),
			Hint: "update Diapause on that host, or resume the session on another one",
		}
	}
	return d.of(r)
}

// unreadable lists what an image needs of Diapause and this version doesn't have.
func unreadable(need, have schemas.Fingerprint) (lacks []string) {
	known := have.Needs(schemas.DiapauseNeed)
	for _, f := range need.Needs(schemas.DiapauseNeed) {
		if !slices.Contains(known, f) {
			lacks = append(lacks, f)
		}
	}
	return lacks
}

// inventory is what was on the host when the worker started. It is not safe for concurrent
// use.
type inventory struct {
	drivers  drivers
	found    []found
	searched bool // found is complete
}

// found is one instance that was on the host.
type found struct {
	driver.Instance
	driver driver.Driver
	name   schemas.DriverName
}

// all has each driver look for what is on the host, the first time that it is called.
func (v *inventory) all(ctx context.Context) ([]found, error) {
	if v.searched {
		return v.found, nil
	}
	var all []found
	for name, d := range v.drivers.byName {
		here, err := d.Recover(ctx)
		if err != nil {
			return nil, fmt.Errorf("driver %s: %w", name, err)
		}
		for _, i := range here {
			all = append(all, found{i, d, name})
		}
	}
	v.found, v.searched = all, true
	return all, nil
}

// here is the inventory as package recovery reads it.
func (v *inventory) here(ctx context.Context) ([]recovery.Here, error) {
	all, err := v.all(ctx)
	if err != nil {
		return nil, err
	}
	var out []recovery.Here
	for _, f := range all {
		out = append(out, recovery.Here{
			Driver: f.name, UID: f.UID, Name: f.Name, Epoch: f.Epoch, Frozen: f.State == driver.Frozen, Exited: f.State == driver.Exited,
		})
	}
	return out, nil
}
