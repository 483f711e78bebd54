// Package drivers registers the drivers that a host can have. A new one is an entry of All
// and, where it needs a setting of the host, a field of Config: no other package names it.
package drivers

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/adopted"
	"github.com/diapause/diapause/workers/criu"
	"github.com/diapause/diapause/workers/docker"
	"github.com/diapause/diapause/workers/driver"
)

// Config is what drivers are made from.
type Config struct {
	Data     string     // the host's data directory: each driver has a place of its own in it
	Instance string     // a token that keeps hosts on one machine apart
	Capture  driver.Way // how memory goes into an image and back
	NATS     string     // where programs in sessions find NATS; they are told of none if empty
	Door     bool       // the worker has an activitydoor.Door in Data
	Hidden   []string   // files and directories of the host that sessions don't see, besides Data
	Docker   string     // the address of a Docker engine, "none", or "" for the default one

	Log        *slog.Logger
	Failpoints *failpoint.Set // for tests: nil does nothing
}

// Registration is how one driver is made, and how the specs for it are checked.
type Registration struct {
	Name schemas.DriverName
	// New makes the driver. If this host has nothing to run it on, New says what it lacks
	// instead. It is an error if the config is wrong.
	New func(Config) (d driver.Driver, lack string, err error)
	// Check refuses a spec that no host could run. Nil checks nothing.
	Check func(schemas.Spec) error
}

// All lists the drivers. Which one runs a session that asks for none is not decided here.
func All() []Registration {
	return []Registration{
		{Name: criu.Name, New: newCRIU},
		{Name: docker.Name, New: newDocker, Check: docker.Check},
		{Name: adopted.Name, New: newProcess, Check: adopted.Check},
	}
}

func newCRIU(c Config) (driver.Driver, string, error) {
	d, err := criu.New(criu.Options{Data: c.Data, Instance: c.Instance, Way: c.Capture, Failpoints: c.Failpoints, URL: c.NATS, Door: c.Door, Hidden: c.Hidden, Docker: c.Docker})
	return d, "", err
}

func newDocker(c Config) (driver.Driver, string, error) {
	address, lack := docker.Locate(c.Docker)
	if lack != "" {
		return nil, lack, nil
	}
	d, err := docker.New(docker.Options{
		Engine: address, Data: filepath.Join(c.Data, string(docker.Name)), Instance: c.Instance, Log: c.Log, Failpoints: c.Failpoints,
	})
	if err != nil {
		err = &SettingError{Setting: "docker", Err: err}
	}
	return d, "", err
}

func newProcess(c Config) (driver.Driver, string, error) {
	d, err := adopted.New(adopted.Options{Data: filepath.Join(c.Data, string(adopted.Name)), Instance: c.Instance, Failpoints: c.Failpoints})
	return d, "", err
}

// SettingError says which setting of a Config can't be used.
type SettingError struct {
	Setting string // as the command line names it
	Err     error
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }

func (e *SettingError) Unwrap() error { return e.Err }

// Check refuses a spec that no host could run with a driver. Drivers that aren't registered
// here check nothing.
func Check(name schemas.DriverName, s schemas.Spec) error {
	for _, r := range All() {
		if r.Name == name && r.Check != nil {
			return r.Check(s)
		}
	}
	return nil
}

// Set is the drivers of a host.
type Set struct {
	ByName map[schemas.DriverName]driver.Driver
	Lacks  map[schemas.DriverName]string // why the host doesn't have the others
}

// Open makes the drivers of a host from registrations. After an error none is left open.
func Open(c Config, all []Registration) (*Set, error) {
	s := &Set{ByName: map[schemas.DriverName]driver.Driver{}, Lacks: map[schemas.DriverName]string{}}
	for _, r := range all {
		d, lack, err := r.New(c)
		switch {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("open driver %s: %w", r.Name, err), s.Close())
		case lack != "":
			s.Lacks[r.Name] = lack
		default:
			s.ByName[r.Name] = d
		}
	}
	return s, nil
}

// Close closes the drivers that can be closed. Sessions run on.
func (s *Set) Close() error {
	var errs []error
	for _, d := range s.ByName {
		if c, ok := d.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
