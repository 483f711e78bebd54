package cgroup

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseAndArrange(t *testing.T) {
	for _, c := range []struct {
		file   string
		v2     []string          // what cgroup.controllers would say
		serves map[string]string // need → mount point
	}{
		{"v1", nil, map[string]string{
			freezer: "/sys/fs/cgroup/freezer", memory: "/sys/fs/cgroup/memory", pids: "/sys/fs/cgroup/pids",
			cpu: "/sys/fs/cgroup/cpu,cpuacct", cpuacct: "/sys/fs/cgroup/cpu,cpuacct"}},
		{"separate", []string{"hugetlb"}, map[string]string{
			freezer: "/sys/fs/cgroup/freezer", memory: "/sys/fs/cgroup/memory", pids: "/sys/fs/cgroup/pids",
			cpu: "/sys/fs/cgroup/cpu", cpuacct: "/sys/fs/cgroup/cpuacct"}},
		{"hybrid", []string{"memory", "pids"}, map[string]string{
			freezer: "/sys/fs/cgroup/freezer", cpu: "/sys/fs/cgroup/cpu,cpuacct", cpuacct: "/sys/fs/cgroup/cpu,cpuacct",
			memory: "/sys/fs/cgroup/unified", pids: "/sys/fs/cgroup/unified"}},
		{"v2", []string{"cpuset", "cpu", "io", "memory", "pids"}, map[string]string{
			freezer: "/sys/fs/cgroup", memory: "/sys/fs/cgroup", pids: "/sys/fs/cgroup", cpu: "/sys/fs/cgroup", cpuacct: "/sys/fs/cgroup"}},
		{"container", []string{"cpu", "memory", "pids"}, map[string]string{
			freezer: "/my cgroups", memory: "/my cgroups", pids: "/my cgroups", cpu: "/my cgroups", cpuacct: "/my cgroups"}},
		{"bare", []string{"cpu"}, map[string]string{freezer: "/sys/fs/cgroup", cpu: "/sys/fs/cgroup", cpuacct: "/sys/fs/cgroup"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			mounts := fixture(t, c.file, c.v2)
			l := arrange(mounts)
			got := map[string]string{}
			for need, i := range l.serves {
				got[need] = l.mounts[i].point
			}
			if !reflect.DeepEqual(got, c.serves) {
				t.Errorf("served by %v, want %v", got, c.serves)
			}
		})
	}
}

func fixture(t *testing.T, name string, v2 []string) []mount {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mounts, err := parseMounts(f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range mounts {
		if mounts[i].version == 2 {
			mounts[i].controllers = v2
		}
	}
	return mounts
}

func TestParseContainerReadOnly(t *testing.T) {
	mounts := fixture(t, "readonly", nil)
	if len(mounts) != 1 || !mounts[0].readOnly {
		t.Fatalf("mounts = %+v, want one that is read-only", mounts)
	}
	_, err := openIn(mounts, "diapause/x")
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("error %v doesn't say that it is read-only", err)
	}
}

func TestParseLaterMountHidesEarlier(t *testing.T) {
	const text = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" +
		"32 31 0:29 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
	mounts, err := parseMounts(strings.NewReader(text))
	if err != nil || len(mounts) != 0 {
		t.Errorf("mounts %+v, error %v: want none", mounts, err)
	}
}

func TestParseRefusesNonsense(t *testing.T) {
	if _, err := parseMounts(strings.NewReader("1 2 3\n")); err == nil {
		t.Error("a line of another form was taken")
	}
}

func TestOpenNeedsAFreezer(t *testing.T) {
	_, err := openIn([]mount{{point: "/x", version: 1, controllers: []string{memory}}}, "diapause")
	if err == nil || !strings.Contains(err.Error(), "freezer") {
		t.Errorf("error %v doesn't name the freezer", err)
	}
}

func TestOpenRefusesNames(t *testing.T) {
	for _, name := range []string{"", ".", "/", "../x", "/abs"} {
		if _, err := Open(name); err == nil {
			t.Errorf("Open(%q) was accepted", name)
		}
	}
}

func TestLimitsNameTheMissingController(t *testing.T) {
	g := &Group{name: "x", h: &Hierarchy{layout: arrange([]mount{{point: "/x", version: 1, controllers: []string{freezer}}})}}
	err := g.supports(Limits{Memory: 1, CPUs: 1, Pids: 1})
	if err == nil {
		t.Fatal("limits that nothing enforces were accepted")
	}
	for _, c := range []string{memory, cpu, pids} {
		if !strings.Contains(err.Error(), "no "+c+" controller") {
			t.Errorf("%q doesn't name %s", err, c)
		}
	}
	if err := g.supports(Limits{}); err != nil {
		t.Errorf("no limits at all: %v", err)
	}
	if err := g.supports(Limits{Pids: -1}); err == nil {
		t.Error("a limit below zero was accepted")
	}
}

func TestKeyed(t *testing.T) {
	events := "low 0\nhigh 0\noom 2\noom_kill 3\n"
	if n, err := keyed(events, "oom_kill"); n != 3 || err != nil {
		t.Errorf("oom_kill = %d, %v", n, err)
	}
	if n, err := keyed("42\n", ""); n != 42 || err != nil {
		t.Errorf("number = %d, %v", n, err)
	}
	if _, err := keyed(events, "absent"); err == nil {
		t.Error("an absent key gave a number")
	}
}

func TestParsePids(t *testing.T) {
	all, err := parsePids([]byte("1\n22\n"))
	if err != nil || !reflect.DeepEqual(all, []int{1, 22}) {
		t.Errorf("pids = %v, %v", all, err)
	}
	if _, err := parsePids([]byte("0\n")); err == nil {
		t.Error("a process without an id here was accepted")
	}
}
