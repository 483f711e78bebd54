package run

import (
	"errors"
	"log/slog"

	"github.com/diapause/diapause/workers/drivers"
)

// drivers makes those that this host can have.
func (c Host) drivers(m machine, hidden []string, log *slog.Logger) (*drivers.Set, error) {
	set, err := drivers.Open(drivers.Config{
		Data: m.data.Path(), Instance: string(m.data.Host()), Capture: c.Capture, NATS: addresses(m.nc), Door: m.door != nil, Docker: c.Docker,
		Hidden: hidden, Log: log, Failpoints: m.points,
	}, drivers.All())
	if e := (*drivers.SettingError)(nil); errors.As(err, &e) {
		return nil, usagef("--%s: %v", e.Setting, e.Err)
	}
	return set, err
}
