package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/reach"
)

// What machines with each version of cgroups, and both, say of a container's first process.
func TestGroupsOf(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for _, c := range []struct {
		what, text string
		want       []string
	}{
		{"version 2 and systemd", "0::/system.slice/docker-ID.scope\n", []string{"/system.slice/docker-ID.scope", "unified/system.slice/docker-ID.scope"}},
		{"version 2 without systemd", "0::/docker/ID\n", []string{"/docker/ID", "unified/docker/ID"}},
		{"version 2, systemd in the container", "0::/system.slice/docker-ID.scope/init.scope\n", []string{"/system.slice/docker-ID.scope", "unified/system.slice/docker-ID.scope"}},
		{"version 2, an engine in the container", "0::/docker/ID/init\n", []string{"/docker/ID", "unified/docker/ID"}},
		{"version 2, a parent of the user's", "0::/batch/ID\n", []string{"/batch/ID", "unified/batch/ID"}},
		{"version 1", "12:pids:/docker/ID\n11:memory:/docker/ID\n1:name=systemd:/docker/ID\n", []string{"pids/docker/ID"}},
		{"both, the engine with version 1", "8:pids:/docker/ID\n4:memory:/docker/ID\n0::/system.slice/docker.service\n", []string{"pids/docker/ID"}},
		{"both, the engine with version 2", "8:pids:/\n0::/docker/ID\n", []string{"/docker/ID", "unified/docker/ID"}},
		{"a process that isn't the container's", "0::/user.slice/session-1.scope\n", nil},
		{"the worker in a container of its own", "0::/../docker-ID.scope\n", []string{"/../docker-ID.scope", "unified/../docker-ID.scope"}},
		{"nothing", "", nil},
	} {
		want := make([]string, len(c.want))
		for i, dir := range c.want {
			want[i] = filepath.Clean(strings.ReplaceAll(dir, "ID", id))
		}
		got := groupsOf(strings.ReplaceAll(c.text, "ID", id), id)
		for i := range got {
			got[i] = filepath.Clean(got[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: its group may be %q, want %q", c.what, got, want)
		}
	}
}

// The processes of a container are those of all groups below its own.
func TestMembers(t *testing.T) {
	top := t.TempDir()
	for dir, pids := range map[string]string{"": "", "init.scope": "10\n", "system.slice": "", "system.slice/web.service": "11\n12\n", "threads": "0\n"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, dir, "cgroup.procs"), []byte(pids), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := members(top)
	slices.Sort(got)
	if want := []int{10, 11, 12}; !slices.Equal(got, want) {
		t.Errorf("its processes are %v, want %v", got, want)
	}
	if got := members(filepath.Join(top, "none")); got != nil {
		t.Errorf("a group that isn't there has %v", got)
	}
}

// A connection is seen to a process that is in a group below the container's own, as systemd in a container has it.
func TestObserveBelow(t *testing.T) {
	x := newTester(t)
	x.start("a", dockerspec.With(schemas.Spec{Command: []string{"sh", "-c", "httpd -f -p 80 & sleep 1000000"}}, dockerspec.Options{}))
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Limit)
	defer cancel()
	n := must[note](t)(x.d.notes.read("a"))
	c := must[client.ContainerInspectResult](t)(x.e.Client.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})).Container
	var all []int
	for ; len(all) < 2; time.Sleep(10 * time.Millisecond) { // sleep and httpd
		if all = processes(c.State.Pid, c.ID); ctx.Err() != nil {
			t.Fatalf("the container's processes are %v", all)
		}
	}
	text := must[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.State.Pid)))
	moved := 0
	for _, dir := range groupsOf(string(text), c.ID) {
		below := filepath.Join(groupRoot, dir, "below")
		if os.Mkdir(below, 0o755) != nil {
			continue // another hierarchy
		}
		for _, pid := range all {
			if pid == c.State.Pid {
				continue
			}
			if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
				t.Fatal(err)
			}
			moved++
		}
	}
	if moved == 0 {
		t.Fatalf("of the container's processes %v were moved %d", all, moved)
	}
	space := must[*os.File](t)(reach.Namespace(c.State.Pid))
	defer space.Close()
	conn := must[net.Conn](t)(reach.Dial(ctx, space, 80))
	defer conn.Close()
	for o := (driver.Observation{}); o.Inbound != 1; time.Sleep(10 * time.Millisecond) {
		if o = must[driver.Observation](t)(x.d.Observe(t.Context(), "a")); ctx.Err() != nil {
			t.Fatalf("the connection isn't seen: %+v", o)
		}
	}
}

// TestVersion2Alone has an engine and the driver run where cgroups are of version 2 alone, as on today's systems. Limits and
// what the engine measures need controllers, which a machine with version 1 beside it keeps there.
func TestVersion2Alone(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long; TestGroupsOf has what differs
	}
	const script = `umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$0" -test.v -test.run "$1"`
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, os.Args[0], "^(TestConformance|TestObserveBelow|TestPausedByOthers)$").CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: Test") < 3 {
		t.Errorf("with version 2 alone: %v\n%s", err, out)
	}
}
