package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// onPaper is a group of version 2 whose files are ordinary ones: what a machine
// whose controllers are all taken by version 1 can't show.
func onPaper(t *testing.T, files map[string]string) (*Group, string) {
	t.Helper()
	m := mount{point: t.TempDir(), version: 2, controllers: []string{memory, cpu, pids}}
	g := (&Hierarchy{layout: arrange([]mount{m}), parent: "p"}).group("g")
	dir := filepath.Join(m.point, "p", "g")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return g, dir
}

func TestLimitsOfVersion2(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		want   map[string]string
	}{
		{Limits{Memory: 1 << 30, CPUs: 1.5, Pids: 100}, map[string]string{
			"memory.max": "1073741824", "memory.swap.max": "0", "cpu.max": "150000 100000", "pids.max": "100"}},
		{Limits{}, map[string]string{"memory.max": "max", "memory.swap.max": "max", "cpu.max": "max 100000", "pids.max": "max"}},
		{Limits{CPUs: 0.001}, map[string]string{"cpu.max": "1000 100000"}},
	} {
		g, dir := onPaper(t, map[string]string{"memory.max": "", "memory.swap.max": "", "cpu.max": "", "pids.max": ""})
		if err := g.SetLimits(c.limits); err != nil {
			t.Fatal(err)
		}
		for file, want := range c.want {
			if b, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(b) != want {
				t.Errorf("%+v: %s is %q (%v), want %q", c.limits, file, b, err, want)
			}
		}
	}
}

func TestLimitsOfVersion2WithoutSwap(t *testing.T) {
	g, _ := onPaper(t, map[string]string{"memory.max": "", "cpu.max": "", "pids.max": ""})
	if err := g.SetLimits(Limits{Memory: 1 << 20}); err != nil {
		t.Errorf("a kernel without swap: %v", err)
	}
}

func TestCountersOfVersion2(t *testing.T) {
	g, _ := onPaper(t, map[string]string{
		"cpu.stat":       "usage_usec 1500000\nuser_usec 1000000\n",
		"memory.current": "4096\n",
		"memory.events":  "low 0\nmax 3\noom 1\noom_kill 2\n",
	})
	if d, err := g.CPU(); d != 1500*time.Millisecond || err != nil {
		t.Errorf("CPU is %v (%v)", d, err)
	}
	if n, err := g.Memory(); n != 4096 || err != nil {
		t.Errorf("memory is %d (%v)", n, err)
	}
	if n, err := g.OOMKills(); n != 2 || err != nil {
		t.Errorf("kills are %d (%v)", n, err)
	}
}

func TestControllersAreHandedDown(t *testing.T) {
	dir := t.TempDir()
	control := filepath.Join(dir, "cgroup.subtree_control")
	if err := os.WriteFile(control, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	m := mount{point: dir, version: 2, controllers: []string{"cpuset", memory, pids}}
	if err := enable(dir, m); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(control); err != nil || string(b) != "+memory +pids" {
		t.Errorf("%q is switched on (%v), want memory and pids", b, err)
	}
}

// TestVacate is what a container's top group needs before it can hand
// controllers down.
func TestVacate(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		p := start(t, g, `echo up; read forever`)
		p.expect(t, "up")
		if err := vacate(g.FreezerPath()); err != nil {
			t.Fatal(err)
		}
		if left, err := readPids(g.FreezerPath()); err != nil || len(left) > 0 {
			t.Errorf("processes %v (%v) are left", left, err)
		}
		moved, err := readPids(filepath.Join(g.FreezerPath(), "init"))
		if err != nil || !slices.Equal(moved, []int{p.Process.Pid}) {
			t.Errorf("processes %v (%v) were moved, want %d", moved, err, p.Process.Pid)
		}
	})
}

func TestUnservedCountersAreErrors(t *testing.T) {
	g := &Group{name: "x", h: &Hierarchy{layout: arrange([]mount{{point: "/x", version: 1, controllers: []string{freezer}}})}}
	_, err1 := g.CPU()
	_, err2 := g.Memory()
	_, err3 := g.OOMKills()
	if err1 == nil || err2 == nil || err3 == nil {
		t.Errorf("errors %v: want one for each", errors.Join(err1, err2, err3))
	}
}
