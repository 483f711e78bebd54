package worker

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/beat"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// announcer tells the fleet about this host.
type announcer struct {
	drivers  drivers
	bus      Bus
	signer   ed25519.PrivateKey
	started  time.Time
	slots    int
	load     func() (schemas.HostLoad, error) // may be nil
	sessions func() int                       // that run here
	labels   map[string]string
	version  string // of Diapause
	log      *slog.Logger
}

// announce tells the fleet about this host.
func (a *announcer) announce(ctx context.Context, sessions int) error {
	h := schemas.Host{Host: a.drivers.host, PID: os.Getpid(), Started: a.started, Seen: time.Now().UTC(), Sessions: sessions, Slots: a.slots, Lacks: map[schemas.DriverName]string{}}
	h.Labels, h.Version, h.Knows = a.labels, a.version, schemas.Features()
	maps.Copy(h.Lacks, a.drivers.lacks)
	if a.load != nil {
		if load, err := a.load(); err == nil {
			h.Load = &load
		}
	}
	if a.signer != nil {
		h.SigningKey = base64.StdEncoding.EncodeToString(a.signer.Public().(ed25519.PublicKey))
	}
	for _, name := range slices.Sorted(maps.Keys(a.drivers.byName)) { // the first that works is the default
		d := a.drivers.byName[name]
		fp, err := d.Fingerprint(ctx)
		if err != nil && ctx.Err() != nil {
			return err // cancelled: that says nothing about the driver
		}
		if err != nil {
			a.log.Warn("driver can't work here", "driver", name, "err", err)
			h.Lacks[name] = lackOf(err)
			continue
		}
		h.Fingerprints = append(h.Fingerprints, fp)
	}
	return a.bus.Announce(ctx, h)
}

// lackOf gives the text of a driver's error, without what it wraps.
func lackOf(err error) string {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Text
	}
	return err.Error()
}

// loadEvery is how often the host's load is read. It is announced when it has changed, so that
// an idle host publishes nothing.
const loadEvery = 2 * time.Second

// announced is what the fleet knows of this host.
type announced struct {
	load     schemas.HostLoad
	sessions int
}

// watchLoad tells the fleet how full this host is, whenever that has changed.
func (a *announcer) watchLoad(ctx context.Context) error {
	tick := beat.NewTicker(loadEvery)
	defer tick.Stop()
	var last announced
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			tick.Next()
		}
		load, err := a.load()
		if err != nil {
			a.log.Warn("could not read the host's load: sessions are suspended for idleness alone", "err", err)
			return nil
		}
		now := announced{load, a.sessions()}
		if !differs(last, now) {
			continue
		}
		if err := a.announce(ctx, now.sessions); err == nil {
			last = now
		} else if ctx.Err() == nil {
			a.log.Warn("could not announce the host", "err", err)
		}
	}
}

// differs reports whether the fleet should hear of a load.
func differs(last, now announced) bool {
	moved := math.Abs(float64(last.load.AvailableBytes - now.load.AvailableBytes))
	return last.sessions != now.sessions || last.load.MemoryBytes != now.load.MemoryBytes ||
		math.Abs(float64(last.load.DiskFreeBytes-now.load.DiskFreeBytes)) > 0.02*float64(now.load.DiskBytes) ||
		moved > 0.02*float64(now.load.MemoryBytes) || math.Abs(last.load.Pressure-now.load.Pressure) > 0.02
}

// LoadWithDisk reads how full this machine is, and the file system that a directory is in.
func LoadWithDisk(dir string) func() (schemas.HostLoad, error) {
	return func() (schemas.HostLoad, error) {
		l, err := MachineLoad()
		var fs unix.Statfs_t
		if err == nil && unix.Statfs(dir, &fs) == nil {
			l.DiskBytes, l.DiskFreeBytes = int64(fs.Blocks)*fs.Bsize, int64(fs.Bavail)*fs.Bsize
		}
		return l, err
	}
}

// MachineLoad reads how full this machine is. On a kernel without PSI the pressure is 0.
func MachineLoad() (schemas.HostLoad, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return schemas.HostLoad{}, fmt.Errorf("read the machine's memory: %w", err)
	}
	psi, err := os.ReadFile("/proc/pressure/memory")
	if err != nil {
		psi = nil
	}
	return parseLoad(string(info), string(psi))
}

func parseLoad(meminfo, psi string) (l schemas.HostLoad, err error) {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "MemTotal:" && f[0] != "MemAvailable:" {
			continue
		}
		kb, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return l, fmt.Errorf("read the machine's memory: %q: %w", line, err)
		}
		if f[0] == "MemTotal:" {
			l.MemoryBytes = kb << 10
		} else {
			l.AvailableBytes = kb << 10
		}
	}
	if l.MemoryBytes == 0 {
		return l, fmt.Errorf("read the machine's memory: /proc/meminfo has no MemTotal")
	}
	some, _, _ := strings.Cut(psi, "\n")
	for _, f := range strings.Fields(some) {
		if percent, ok := strings.CutPrefix(f, "avg10="); ok {
			if p, err := strconv.ParseFloat(percent, 64); err == nil {
				l.Pressure = p / 100
			}
		}
	}
	return l, nil
}
