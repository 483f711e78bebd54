package cgroup

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func open(t *testing.T) *Hierarchy {
	t.Helper()
	h, err := Open("diapause-test/" + rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Remove(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestPidsLimitStopsFork(t *testing.T) {
	g := create(t, open(t), Limits{Pids: 4})
	script := `for i in 1 2 3 4 5 6; do sleep 600 >/dev/null & echo $i; done 2>/dev/null`
	p := start(t, g, script)
	for _, n := range []string{"1", "2", "3"} {
		p.expect(t, n)
	}
	if line, err := p.out.ReadString('\n'); err == nil {
		t.Errorf("a fifth process was started: it said %q", line)
	}
	_ = g.Kill(within(t, 20*time.Second))
}

func TestMemoryLimitKillsAndIsCounted(t *testing.T) {
	g := create(t, open(t), Limits{Memory: 48 << 20})
	if n, err := g.OOMKills(); n != 0 || err != nil {
		t.Fatalf("a new group counts %d kills (%v)", n, err)
	}
	// tail keeps all of a line, so that it holds 300 MB in the end.
	p := start(t, g, `exec tail -n 1 >/dev/null`)
	chunk := make([]byte, 1<<20)
	for range 300 {
		if _, err := p.in.Write(chunk); err != nil {
			break
		}
	}
	_ = p.in.Close()
	err := p.Wait()
	if s, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v, want a kill", err)
	}
	if n, err := g.OOMKills(); n != 1 || err != nil {
		t.Errorf("%d kills are counted (%v), want 1", n, err)
	}
}

func TestMemoryIsMeasured(t *testing.T) {
	g := create(t, open(t), Limits{})
	p := start(t, g, `x=$(head -c 20000000 /dev/zero | tr '\0' x); echo up; read forever`)
	p.expect(t, "up")
	if n, err := g.Memory(); err != nil || n < 20_000_000 {
		t.Errorf("%d bytes are measured (%v), want 20 MB or more", n, err)
	}
}

func TestCPULimitHolds(t *testing.T) {
	g := create(t, open(t), Limits{CPUs: 0.2})
	start(t, g, busy).expect(t, "up")
	worksOn(t, g)
	began, before := time.Now(), used(t, g)
	deadline := time.After(time.Second)
	<-deadline
	share := float64(used(t, g)-before) / float64(time.Since(began))
	// One window may be open at either end.
	if share > 0.35 {
		t.Errorf("it used %.2f of a core, want at most 0.2 and a window more", share)
	}
}

func TestSetLimitsGrowsShrinksAndClears(t *testing.T) {
	g := create(t, open(t), Limits{})
	for _, l := range []Limits{
		{Memory: 64 << 20, CPUs: 1.5, Pids: 10},
		{Memory: 256 << 20, CPUs: 0.5, Pids: 100},
		{Memory: 32 << 20, Pids: 5},
		{},
	} {
		if err := g.SetLimits(l); err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
		if got, want := pidsMax(t, g), l.Pids; got != want {
			t.Errorf("pids.max is %d, want %d", got, want)
		}
	}
}

func pidsMax(t *testing.T, g *Group) int64 {
	t.Helper()
	dir, _, _ := g.serving(pids)
	b, err := os.ReadFile(filepath.Join(dir, "pids.max"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(b)) == "max" {
		return 0
	}
	n, err := keyed(string(b), "")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMissingControllerLeavesNothing asks a hierarchy that can only freeze for
// a limit.
func TestMissingControllerLeavesNothing(t *testing.T) {
	mounts, err := seen("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	full := arrange(mounts)
	only := full.mounts[full.serves[freezer]]
	only.controllers = []string{freezer}
	h, err := openIn([]mount{only}, "diapause-test/"+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Remove()
	if _, err := h.Create("x", Limits{Pids: 5}); err == nil || !strings.Contains(err.Error(), "no pids controller") {
		t.Errorf("error %v doesn't name the pids controller", err)
	}
	if names, err := h.Names(); err != nil || len(names) != 0 {
		t.Errorf("groups %v (%v) are left", names, err)
	}
	for _, f := range h.Check() {
		if want := f.Name == "cgroup freezer" || f.Name == "cgroup version" || f.Name == "cgroup cpuacct" && only.version == 2; f.OK != want {
			t.Errorf("%+v: want OK %v", f, want)
		}
		if !f.OK && f.Fix == "" {
			t.Errorf("%s has no fix", f.Name)
		}
	}
}

func TestCheckOnThisMachine(t *testing.T) {
	for _, f := range open(t).Check() {
		if !f.OK {
			t.Errorf("%s: %s (%s)", f.Name, f.Detail, f.Fix)
		}
	}
}

func TestReadCounter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counter")
	for _, size := range []int{0, 3, 511, 512, 513, 5000} {
		want := bytes.Repeat([]byte("7"), size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := readCounter(path); err != nil || !bytes.Equal(b, want) {
			t.Errorf("of %d bytes it reads %d (%v)", size, len(b), err)
		}
	}
	if _, err := readCounter(path + "-gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that isn't there gives %v", err)
	}
	if _, err := readCounter(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), filepath.Dir(path)) {
		t.Errorf("a directory gives %v", err)
	}
}
