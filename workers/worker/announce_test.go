package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

func TestParseLoad(t *testing.T) {
	const info = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n"
	for psi, want := range map[string]float64{
		"": 0, "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=1\n": 0.125, "nonsense": 0,
	} {
		got, err := parseLoad(info, psi)
		if want := (schemas.HostLoad{MemoryBytes: 1000 << 10, AvailableBytes: 400 << 10, Pressure: want}); err != nil || got != want {
			t.Errorf("%q: %+v, %v", psi, got, err)
		}
	}
	if _, err := parseLoad("MemFree: 1 kB", ""); err == nil {
		t.Error("a machine without memory is one")
	}
	if l, err := MachineLoad(); err != nil || l.AvailableBytes <= 0 || l.AvailableBytes > l.MemoryBytes {
		t.Errorf("this machine: %+v, %v", l, err)
	}
	if l, err := LoadWithDisk(t.TempDir())(); err != nil || l.MemoryBytes <= 0 || l.DiskFreeBytes <= 0 || l.DiskFreeBytes > l.DiskBytes {
		t.Errorf("this machine and its disk: %+v, %v", l, err)
	}
}

// A host says how full it is when that has changed, and not else.
func TestDiffers(t *testing.T) {
	was := announced{schemas.HostLoad{MemoryBytes: 1000, AvailableBytes: 500, Pressure: 0.1}, 3}
	for name, c := range map[string]struct {
		change func(*announced)
		want   bool
	}{
		"nothing":             {func(*announced) {}, false},
		"a little memory":     {func(n *announced) { n.load.AvailableBytes += 15 }, false},
		"much memory":         {func(n *announced) { n.load.AvailableBytes -= 50 }, true},
		"one session":         {func(n *announced) { n.sessions++ }, true},
		"tasks that wait":     {func(n *announced) { n.load.Pressure = 0.3 }, true},
		"a little of waiting": {func(n *announced) { n.load.Pressure = 0.11 }, false},
	} {
		now := was
		c.change(&now)
		if got := differs(was, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type unable struct{ driver.Driver }

func (unable) Fingerprint(context.Context) (schemas.Fingerprint, error) {
	return schemas.Fingerprint{}, errors.New("cut short")
}

type silent struct{ Bus }

func (silent) Announce(context.Context, schemas.Host) error { return nil }

// What a driver says when the worker is being stopped doesn't tell whether it works here.
func TestCutShort(t *testing.T) {
	var said strings.Builder
	a := &announcer{
		drivers: drivers{host: "h", byName: map[schemas.DriverName]driver.Driver{"unable": unable{}}}, bus: silent{}, log: slog.New(slog.NewTextHandler(&said, nil)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := a.announce(ctx, 0); err != nil || !strings.Contains(said.String(), "can't work here") {
		t.Errorf("a driver that fails: %v, said %q", err, said.String())
	}
	said.Reset()
	cancel()
	if err := a.announce(ctx, 0); err == nil || said.Len() > 0 {
		t.Errorf("one that was cut short: %v, said %q", err, said.String())
	}
}
