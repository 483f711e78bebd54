package run

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/criu"
	"github.com/diapause/diapause/workers/docker"
	"github.com/diapause/diapause/workers/driver"
)

// drivers are how sessions run on this host.
type drivers struct {
	byName   map[schemas.DriverName]driver.Driver
	lacking  map[schemas.DriverName]string // why this host has no driver of a name
	labelled *docker.Driver                // whose containers may ask to be sessions
	criu     *criu.Driver
}

// drivers makes all that this host can have. A driver is registered here and nowhere
// else.
func (c Host) drivers(m machine, log *slog.Logger) (d drivers, err error) {
	d = drivers{byName: map[schemas.DriverName]driver.Driver{}, lacking: map[schemas.DriverName]string{}}
	d.criu, err = criu.New(criu.Options{
		Data: m.data.Path(), Instance: string(m.data.Host()), Way: c.Capture, Failpoints: m.points, URL: addresses(m.nc),
	})
	if err != nil {
		return d, err
	}
	d.byName["criu"] = d.criu
	engine, why := Engine(c.Docker)
	if engine == "" {
		d.lacking[docker.Name] = why
		return d, nil
	}
	d.labelled, err = docker.New(docker.Options{
		Engine: engine, Data: filepath.Join(m.data.Path(), "docker"), Instance: string(m.data.Host()), Log: log, Failpoints: m.points,
	})
	if err != nil {
		return d, usagef("--docker: %v", err)
	}
	d.byName[docker.Name] = d.labelled
	return d, nil
}

func (d drivers) close(log *slog.Logger) {
	if d.criu == nil {
		return
	}
	if err := d.criu.Close(); err != nil {
		log.Info("cgroups are kept: sessions run on", "err", err)
	}
}

// UsualEngine is where Docker's engine listens unless it was told otherwise.
const UsualEngine = "unix:///var/run/docker.sock"

// Engine gives the address of the Docker engine to use, or "" and why there is none.
func Engine(asked string) (engine, why string) {
	if asked == "none" {
		return "", "`--docker none` was asked for"
	}
	if asked != "" {
		return asked, ""
	}
	if _, err := os.Stat(strings.TrimPrefix(UsualEngine, "unix://")); err != nil {
		return "", "no Docker engine was at " + UsualEngine + " (`--docker` names another)"
	}
	return UsualEngine, ""
}
