package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/tree"
)

// observer measures what sessions do.
type observer struct {
	engine *engine
	notes  *notes
	states *states
}

// observe implements driver.Observer.
func (o *observer) observe(ctx context.Context, uid schemas.UID) (driver.Observation, error) {
	n, err := o.notes.read(uid)
	if err != nil {
		return driver.Observation{}, err
	}
	c, err := o.states.find(ctx, n)
	if err != nil {
		return driver.Observation{}, err
	}
	status := statusOf(n, c)
	if !c.State.Running {
		return driver.Observation{Status: status, Container: containerOf(c)}, nil
	}
	s, err := o.engine.stats(ctx, n.Container)
	if err != nil {
		return driver.Observation{}, err
	}
	out := driver.Observation{
		Status: status, Container: containerOf(c), RSS: int64(s.MemoryStats.Usage - min(s.MemoryStats.Usage, fileCache(s.MemoryStats.Stats))), CPU: time.Duration(s.CPUStats.CPUUsage.TotalUsage), Processes: int(s.PidsStats.Current),
	}
	out.Execs = o.execs(ctx, c)
	connections, err := tree.Connections(processes(c.State.Pid, c.ID))
	if err != nil {
		return driver.Observation{}, fmt.Errorf("list the connections of container %s: %w", c.Name, err)
	}
	for _, c := range connections {
		if c.Inbound && c.Established {
			out.Inbound++
		}
	}
	return out, nil
}

// containerOf gives what clients are shown of a container.
func containerOf(c *container.InspectResponse) *schemas.Container {
	out := &schemas.Container{Name: strings.TrimPrefix(c.Name, "/"), Image: c.Config.Image}
	if c.NetworkSettings == nil {
		return out
	}
	for port, bindings := range c.NetworkSettings.Ports {
		if len(bindings) == 0 {
			out.Ports = append(out.Ports, port.String())
		}
		for _, b := range bindings {
			out.Ports = append(out.Ports, net.JoinHostPort(b.HostIP.String(), b.HostPort)+"->"+port.String())
		}
	}
	slices.Sort(out.Ports)
	return out
}

// statusOf gives the status of a container that counts as running but doesn't simply run.
func statusOf(n note, c *container.InspectResponse) string {
	switch s := c.State; {
	case s.Paused && n.Phase == frozen && !n.Paused: // by the driver, for a capture
		return ""
	case s.Paused, s.Restarting, !s.Running:
		return string(s.Status)
	case failing(c):
		return string(container.Unhealthy)
	}
	return ""
}

// processes lists the processes of a container, of which the first is known.
func processes(first int, id string) []int {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", first))
	if err != nil {
		return nil // the process has ended
	}
	for _, dir := range groupsOf(string(groups), id) {
		if pids := members(filepath.Join(groupRoot, dir)); len(pids) > 0 {
			return pids
		}
	}
	return []int{first}
}

const groupRoot = "/sys/fs/cgroup"

// groupsOf gives where below groupRoot the cgroup of a container may be, by what /proc/PID/cgroup says of one of its
// processes. That may be in a group further down, as systemd makes them in a container: the container's own is the one
// that its id names.
func groupsOf(text, id string) (dirs []string) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		at := strings.Index(parts[2], id)
		if at < 0 || id == "" {
			continue
		}
		own, below := parts[2][:at+len(id)], parts[2][at+len(id):]
		suffix, _, _ := strings.Cut(below, "/") // of a scope of systemd
		own += suffix
		switch parts[1] {
		case "": // version 2, alone or beside version 1
			dirs = append(dirs, own, filepath.Join("unified", own))
		case "pids":
			dirs = append(dirs, filepath.Join("pids", own))
		}
	}
	return dirs
}

// members lists the processes of a group and of all below it. What isn't mounted, or has just gone, has none.
func members(dir string) (pids []int) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return pids
	}
	for _, e := range entries {
		if e.IsDir() {
			pids = append(pids, members(filepath.Join(dir, e.Name()))...)
		}
	}
	return pids
}

func (e *engine) stats(ctx context.Context, id string) (container.StatsResponse, error) {
	var s container.StatsResponse
	got, err := e.ContainerStats(ctx, id, client.ContainerStatsOptions{})
	if err != nil {
		return s, e.failed("measure a container", err)
	}
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(&s); err != nil {
		return s, fmt.Errorf("decode the statistics of container %s: %w", id, err)
	}
	return s, nil
}

// fileCache is the memory of a container that only caches files, in bytes.
func fileCache(stats map[string]uint64) uint64 {
	for _, name := range []string{"total_inactive_file", "inactive_file"} {
		if n, ok := stats[name]; ok {
			return n
		}
	}
	return 0
}

// execs counts the commands that run in the container beside its own. Health checks don't
// count: no user waits for them.
func (o *observer) execs(ctx context.Context, c *container.InspectResponse) (n int) {
	longest := probing(c)
	for _, id := range c.ExecIDs {
		got, err := o.engine.ExecInspect(ctx, id, client.ExecInspectOptions{})
		if err == nil && got.Running && (longest == 0 || waitedFor(got.PID, longest)) {
			n++
		}
	}
	return n
}

// probeTimeout is the engine's default timeout of a health check.
const probeTimeout = 30 * time.Second

// probing gives the timeout of the container's health check, 0 if it has none.
func probing(c *container.InspectResponse) time.Duration {
	h := c.Config.Healthcheck
	switch {
	case h == nil, len(h.Test) == 0, h.Test[0] == "NONE":
		return 0
	case h.Timeout > 0:
		return h.Timeout
	}
	return probeTimeout
}

// waitedFor reports whether a command is no health check: it has a terminal, or has run for
// longer than a health check may. The engine doesn't say which of its commands are health checks.
func waitedFor(pid int, longest time.Duration) bool {
	fields := statOf(pid)
	if fields == nil {
		return false // it has ended
	}
	const terminal = 4 // field of proc(5), counted from the state
	if fields[terminal] != "0" {
		return true
	}
	age, ok := ageOf(fields)
	return !ok || age > longest+probeOver
}

// statOf gives the fields of /proc/pid/stat from the state on, nil if the process has ended.
func statOf(pid int) []string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(stat[max(bytes.LastIndexByte(stat, ')'), 0):]), " ")
	fields := strings.Fields(rest)
	if len(fields) <= statStart {
		return nil
	}
	return fields
}

const statStart = 19 // the field with the start of a process, in ticks since boot

// ageOf gives the age of a process.
func ageOf(stat []string) (time.Duration, bool) {
	const ticks = 100 // per second
	var now unix.Timespec
	at, err := strconv.ParseInt(stat[statStart], 10, 64)
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0, false
	}
	return time.Duration(now.Nano()) - time.Duration(at)*time.Second/ticks, true
}

// probeOver bounds how long the engine takes to end a health check after its timeout.
const probeOver = 2 * time.Second
