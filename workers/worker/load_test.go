package worker

import (
	"testing"

	"github.com/diapause/diapause/schemas"
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
}

// A host says how full it is when that has changed, and not else.
func TestDiffers(t *testing.T) {
	was := told{schemas.HostLoad{MemoryBytes: 1000, AvailableBytes: 500, Pressure: 0.1}, 3}
	for name, c := range map[string]struct {
		change func(*told)
		want   bool
	}{
		"nothing":             {func(*told) {}, false},
		"a little memory":     {func(n *told) { n.load.AvailableBytes += 15 }, false},
		"much memory":         {func(n *told) { n.load.AvailableBytes -= 50 }, true},
		"one session":         {func(n *told) { n.sessions++ }, true},
		"tasks that wait":     {func(n *told) { n.load.Pressure = 0.3 }, true},
		"a little of waiting": {func(n *told) { n.load.Pressure = 0.11 }, false},
	} {
		now := was
		c.change(&now)
		if got := differs(was, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
