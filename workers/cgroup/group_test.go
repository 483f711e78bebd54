package cgroup

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hierarchies are what the tests run on: what Open chooses on this machine, and
// version 2 alone, which can freeze and kill beside any version 1.
func hierarchies(t *testing.T, test func(t *testing.T, h *Hierarchy)) {
	mounts, err := seen("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	v2 := slices.DeleteFunc(slices.Clone(mounts), func(m mount) bool { return m.version == 1 })
	if len(v2) == 0 {
		t.Fatal("no cgroup v2 hierarchy is mounted: mount -t cgroup2 none /sys/fs/cgroup/unified")
	}
	for name, use := range map[string][]mount{"as on this machine": mounts, "version 2 alone": v2} {
		t.Run(name, func(t *testing.T) {
			h, err := openIn(use, "diapause-test/"+rand.Text())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := h.Remove(); err != nil {
					t.Error(err)
				}
				for _, m := range h.layout.mounts {
					if _, err := os.Stat(filepath.Join(m.point, h.parent)); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("the parent in %s is still there (%v)", m, err)
					}
				}
			})
			test(t, h)
		})
	}
}

func create(t *testing.T, h *Hierarchy, l Limits) *Group {
	t.Helper()
	g, err := h.Create(rand.Text(), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Kill(within(t, 20*time.Second)), g.Remove()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, stop := context.WithTimeout(context.Background(), d)
	t.Cleanup(stop)
	return ctx
}

// process is a shell that runs script once it is in a group.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, g *Group, script string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("/bin/sh", "-c", "read go; "+script)}
	p.in, _ = p.StdinPipe()
	out, _ := p.StdoutPipe()
	p.out = bufio.NewReader(out)
	p.Stderr = os.Stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		// A frozen process of version 1 doesn't die.
		if err := g.Thaw(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		_ = p.Wait()
	})
	if err := g.Add(p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	p.tell(t, "go")
	return p
}

func (p *process) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		t.Fatal(err)
	}
}

func (p *process) expect(t *testing.T, want string) {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if got := strings.TrimSpace(line); got != want || err != nil {
		t.Fatalf("the process said %q (%v), want %q", got, err, want)
	}
}

const busy = `echo up; while :; do :; done`

func used(t *testing.T, g *Group) time.Duration {
	t.Helper()
	d, err := g.CPU()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func worksOn(t *testing.T, g *Group) {
	t.Helper()
	before := used(t, g)
	err := poll(within(t, 20*time.Second), func() (bool, error) { return used(t, g) > before+5*time.Millisecond, nil })
	if err != nil {
		t.Fatalf("the group doesn't work: %v used, then nothing", before)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		start(t, g, busy).expect(t, "up")
		worksOn(t, g)

		if err := g.Freeze(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		if frozen, err := g.State(); !frozen || err != nil {
			t.Fatalf("frozen is %v (%v) after Freeze", frozen, err)
		}
		before := used(t, g)
		other := create(t, h, Limits{})
		start(t, other, busy).expect(t, "up")
		worksOn(t, other) // time passes for others
		if after := used(t, g); after != before {
			t.Errorf("a frozen group used %v", after-before)
		}

		if err := g.Thaw(); err != nil {
			t.Fatal(err)
		}
		if frozen, err := g.State(); frozen || err != nil {
			t.Fatalf("frozen is %v (%v) after Thaw", frozen, err)
		}
		worksOn(t, g)
	})
}

// A frozen group that was thawed by someone else doesn't settle, and isn't frozen again.
func TestSettle(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		start(t, g, busy).expect(t, "up")
		ctx := within(t, 20*time.Second)
		if err := g.Freeze(ctx); err != nil {
			t.Fatal(err)
		}
		if err := g.Settle(ctx); err != nil {
			t.Errorf("a frozen group: %v", err)
		}
		if err := g.Thaw(); err != nil {
			t.Fatal(err)
		}
		if err := g.Settle(ctx); !errors.Is(err, errThawed) {
			t.Errorf("a group that was thawed: %v", err)
		}
		worksOn(t, g)
	})
}

func TestFreezeGivesUpWithItsContext(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		start(t, g, busy).expect(t, "up")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		err := g.Freeze(ctx)
		if frozen, _ := g.State(); err == nil && !frozen {
			t.Error("Freeze said that it is done and it isn't")
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want one that is context.Canceled", err)
		}
	})
}

func TestKillWhileFrozen(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		p := start(t, g, `sleep 600 & sleep 600 & echo up; wait`)
		p.expect(t, "up")
		if all, err := g.Pids(); err != nil || len(all) != 3 || !slices.Contains(all, p.Process.Pid) {
			t.Fatalf("pids %v (%v), want the shell %d and two more", all, err, p.Process.Pid)
		}
		if err := g.Freeze(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := g.Kill(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		if all, err := g.Pids(); err != nil || len(all) != 0 {
			t.Errorf("pids %v (%v) after Kill", all, err)
		}
		if frozen, err := g.State(); err != nil || frozen && g.h.layout.mounts[0].version == 1 {
			t.Errorf("frozen is %v (%v) after Kill", frozen, err)
		}
	})
}

func TestKillCatchesWhatForksAllTheTime(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		start(t, g, `trap '' TERM HUP INT; echo up; while :; do (sleep 0.01 &) ; done`).expect(t, "up")
		worksOn(t, g)
		if err := g.Kill(within(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			t.Errorf("the group isn't empty: %v", err)
		}
	})
}

// TestKillTwice has two callers kill one group at a time: each thaws what the other has frozen.
func TestKillTwice(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		for range 20 {
			g := create(t, h, Limits{})
			for range 8 {
				start(t, g, busy).expect(t, "up")
			}
			ended := make(chan error)
			const callers = 3
			for range callers {
				go func() { ended <- g.Kill(within(t, 20*time.Second)) }()
			}
			for range callers {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if err := g.Remove(); err != nil {
				t.Errorf("the group isn't empty: %v", err)
			}
		}
	})
}

func TestKillReachesGroupsBelow(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		p := start(t, g, `echo up; read forever`)
		p.expect(t, "up")
		below := filepath.Join(g.FreezerPath(), "made-by-the-session")
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := write(filepath.Join(below, "cgroup.procs"), fmt.Sprint(p.Process.Pid)); err != nil {
			t.Fatal(err)
		}
		if err := g.Kill(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
}

func TestKillSaysWhoIsLeft(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		p := start(t, g, `echo up; read forever`)
		p.expect(t, "up")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := g.Kill(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want one that is context.Canceled", err)
		}
		if err := g.Kill(within(t, 20*time.Second)); err != nil {
			t.Errorf("the second time: %v", err)
		}
	})
}

func TestAddCallingProcess(t *testing.T) {
	if parent := os.Getenv("CGROUP_TEST_ADD"); parent != "" {
		h, err := Open(parent)
		if err != nil {
			t.Fatal(err)
		}
		g, ok := h.Group("self")
		if !ok {
			t.Fatal("the group isn't seen by another process")
		}
		if err := g.Add(0); err != nil {
			t.Fatal(err)
		}
		all, err := g.Pids()
		if err != nil || !slices.Contains(all, os.Getpid()) {
			t.Fatalf("pids %v (%v), want %d", all, err, os.Getpid())
		}
		return
	}
	h, err := Open("diapause-test/" + rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.Create("self", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAddCallingProcess$")
	cmd.Env = append(os.Environ(), "CGROUP_TEST_ADD="+h.parent)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := errors.Join(g.Remove(), h.Remove()); err != nil {
		t.Error(err)
	}
}

func TestAddOfAProcessThatIsGone(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		cmd := exec.Command("/bin/true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if err := g.Add(cmd.Process.Pid); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("error %v, want one that is ESRCH", err)
		}
	})
}

func TestNamesAndGroups(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		if _, err := h.Create(g.Name(), Limits{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second one of that name: error %v, want fs.ErrExist", err)
		}
		if names, err := h.Names(); err != nil || !slices.Equal(names, []string{g.Name()}) {
			t.Errorf("names %v (%v)", names, err)
		}
		if _, ok := h.Group(g.Name()); !ok {
			t.Error("the group isn't found")
		}
		if _, ok := h.Group("absent"); ok {
			t.Error("a group that doesn't exist is found")
		}
		if err := h.Remove(); err != nil {
			t.Errorf("removing parents that aren't empty: %v", err)
		}
		if _, ok := h.Group(g.Name()); !ok {
			t.Error("Remove of the hierarchy took a group along")
		}
		for _, bad := range []string{"", "..", "a/b", "cgroup.procs"} {
			if _, err := h.Create(bad, Limits{}); err == nil {
				t.Errorf("the name %q was accepted", bad)
			}
		}
	})
}

func TestReplace(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		g := create(t, h, Limits{})
		p := start(t, g, busy)
		p.expect(t, "up")
		if err := g.Freeze(within(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
		again, err := h.Replace(within(t, 20*time.Second), g.Name(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if left, err := again.Pids(); err != nil || len(left) > 0 {
			t.Errorf("the new group has processes %v (%v)", left, err)
		}
		err = p.Wait()
		if s, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
			t.Errorf("the process of the old group ended with %v", err)
		}
		if _, err := h.Replace(within(t, 20*time.Second), "../x", Limits{}); err == nil {
			t.Error("a bad name was accepted")
		}
	})
}

// TestCreateAfterParentsVanished is two workers on one machine: one removes the
// empty parent that the other has opened.
func TestCreateAfterParentsVanished(t *testing.T) {
	hierarchies(t, func(t *testing.T, h *Hierarchy) {
		if err := h.Remove(); err != nil {
			t.Fatal(err)
		}
		g := create(t, h, Limits{})
		start(t, g, `echo up; read forever`).expect(t, "up")
	})
}
