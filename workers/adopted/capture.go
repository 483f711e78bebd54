package adopted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
)

// ghostLimit bounds an open file that has no name any more, in bytes.
const ghostLimit = 500 << 20

const (
	part     = "criu"      // the part of an image that has criu's files
	treeFile = "tree.json" // beside these: the tree, as a restore needs to know it
	logName  = "criu.log"
)

// The time that a tree may take to stand still, and a dump that a crash left behind to end.
const (
	freezeLimit = 20 * time.Second
	dumpLimit   = 2 * time.Minute
)

// saved is what an image says of its tree.
type saved struct {
	Root int   `json:"root"`
	IDs  []int `json:"ids"` // of its processes and threads: all must be free for a restore
}

// Preflight implements driver.Preflighter.
func (d *Driver) Preflight(ctx context.Context, uid schemas.UID) ([]driver.Blocker, error) {
	n, err := d.notes.read(uid)
	if err != nil {
		return nil, err
	}
	g, ok := d.group(uid)
	if n.Phase != here || !ok {
		return nil, driver.ErrNotHere
	}
	_, blockers, _, err := d.check(ctx, n, g)
	return blockers, err
}

// check finds what stops a capture now, and what one would lose.
func (d *Driver) check(ctx context.Context, n note, g *cgroup.Group) ([]int, []driver.Blocker, []schemas.Warning, error) {
	pids, err := g.Pids()
	if err != nil {
		return nil, nil, nil, err
	}
	below, err := Descendants(n.PID)
	if err != nil {
		return nil, nil, nil, err
	}
	blockers, warnings, err := preflight.Check(ctx, pids, checks(n.PID, d.options.Criu))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("look for what can't be captured in session %s: %w", n.Name, err)
	}
	for _, pid := range pids {
		if p, err := statOf(pid); err == nil && pid != n.PID && p.State != 'Z' && !slices.Contains(below, pid) {
			blockers = append(blockers, blocker(p, "outside of the tree", "the process that started it has ended, so it is no longer one of the tree's", "end it, or have the program wait for what it starts"))
		}
	}
	return pids, blockers, warnings, nil
}

// Capture implements driver.Driver.
func (d *Driver) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (c driver.Captured, err error) {
	n, g, err := d.hereNow(f)
	if err != nil {
		return c, err
	}
	if err := ctx.Err(); err != nil {
		return c, err
	}
	if !alive(n.PID, n.Start) {
		return c, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s has ended", f.Name)}
	}
	if c.Fingerprint, err = d.Fingerprint(ctx); err != nil {
		return c, err
	}
	_, blockers, warnings, err := d.check(ctx, n, g)
	if err != nil {
		return c, err
	}
	if len(blockers) > 0 {
		return c, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s can't be captured", f.Name), Blockers: blockers}
	}
	c.Warnings = warnings
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Thaw())
		}
	}()
	began := time.Now()
	if err := freeze(ctx, g, n); err != nil {
		return c, err
	}
	c.Frozen = time.Now()
	c.FreezeTook = c.Frozen.Sub(began)
	dir, err := d.mountScratch(f.UID)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, d.dropScratch(f.UID)) }()
	if err := d.dump(ctx, n, g, dir, sink); err != nil {
		return c, err
	}
	c.CaptureTook = time.Since(c.Frozen)
	return c, nil
}

// freeze stops the tree where it is.
func freeze(ctx context.Context, g *cgroup.Group, n note) error {
	ctx, cancel := context.WithTimeout(ctx, freezeLimit)
	defer cancel()
	if err := g.Freeze(ctx); err != nil {
		return fmt.Errorf("freeze session %s: %w", n.Name, err)
	}
	stopped, err := g.Stopped()
	if err == nil && len(stopped) > 0 {
		err = &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s: process %d is stopped", n.Name, stopped[0]), Hint: "let it go on (SIGCONT)"}
	}
	return err
}

// dump has criu dump the frozen tree, and adds the image to the sink while criu still has what only
// a dump has: names of files that were unlinked.
func (d *Driver) dump(ctx context.Context, n note, g *cgroup.Group, dir string, sink driver.Sink) error {
	ids, err := threadsOf(g)
	if err != nil {
		return err
	}
	beside, err := d.hierarchy.Create(besideName(n.UID), cgroup.Limits{})
	if err != nil {
		return err
	}
	p, err := rpc.Start(d.options.Criu, beside.Start)
	if err != nil {
		return errors.Join(err, beside.Remove())
	}
	err = p.Dump(rpc.Options{
		ImagesDir: dir, PID: n.PID, LogLevel: 2, LogFile: logName, LeaveRunning: true,
		FileLocks: true, GhostLimit: ghostLimit, TCPClose: true, FreezeCgroup: g.FreezerPath(),
	}, func(notice rpc.Notice) error {
		if notice.Step != rpc.PostDump {
			return nil
		}
		return add(ctx, sink, dir, saved{n.PID, ids})
	})
	err = errors.Join(explain(dir, n.Name, "captured", err), beside.Remove())
	if err != nil {
		return err
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeLimit)
	defer cancel()
	return g.Settle(settle)
}

// besideName is what the cgroup of the criu is called that dumps a session.
func besideName(uid schemas.UID) string { return string(uid) + "-dump" }

// awaitDump waits for the criu of a capture that a crash has cut off. It is never killed: that can
// take the session with it.
func (d *Driver) awaitDump(ctx context.Context, uid schemas.UID) error {
	beside, ok := d.hierarchy.Group(besideName(uid))
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dumpLimit)
	defer cancel()
	for {
		left, err := beside.Pids()
		if err != nil || len(left) == 0 {
			return errors.Join(err, beside.Remove())
		}
		select {
		case <-time.After(10 * time.Millisecond): // there is no signal: it is no child of this process
		case <-ctx.Done():
			return fmt.Errorf("wait for criu, process %d, to end: %w", left[0], ctx.Err())
		}
	}
}

// threadsOf lists the ids of a group's threads, which those of its processes are among.
func threadsOf(g *cgroup.Group) (ids []int, err error) {
	pids, err := g.Pids()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return nil, fmt.Errorf("list the threads of process %d: %w", pid, err)
		}
		for _, t := range tasks {
			var id int
			if _, err := fmt.Sscan(t.Name(), &id); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// add adds criu's images, and what a restore has to know before it.
func add(ctx context.Context, sink driver.Sink, dir string, of saved) error {
	b, err := json.Marshal(of)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, treeFile), b, 0o600); err != nil {
		return fmt.Errorf("write the list of the tree's processes: %w", err)
	}
	from, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("read what was captured: %w", err)
	}
	defer from.Close()
	if err := layer.AddStill(ctx, sink, from, part); err != nil {
		return fmt.Errorf("add what was captured to the image: %w", err)
	}
	return nil
}

var errorLine = regexp.MustCompile(`Error \([^)]*\):\s*(.*)`)

// causes are failures of criu that people meet: what its log says, and what to do.
var causes = []struct{ sign, why, fix string }{
	{"has bad size", "a file that it has open was changed while it was suspended", "put the file back as it was, or start the program again"},
	{"Can't open file", "a file that it has open is gone", "put the file back, or start the program again"},
	{"Address already in use", "an address that it listens on is in use on this host", "end what uses it, then resume the session again"},
	{"Can't create link-remap", "a file that it has open has lost the name by which it was opened", "close it"},
	{"External socket is used", "a program is connected to a unix socket outside of the session", "end that connection"},
	{"external socket", "a program is connected to a unix socket outside of the session", "end that connection"},
	{"No space left", "there is not enough memory for the image", "free memory on this host"},
	{"Cannot allocate memory", "there is not enough memory", "free memory on this host"},
	{"File exists", "a pid that it needs was taken just now", "end that process, then resume the session again"},
}

// noise is what criu calls an error and goes on.
const noise = "RLIMIT_NOFILE"

// explain puts a failure of criu into words. What its callback refused is returned as it is.
func explain(dir string, name schemas.Name, verb string, err error) error {
	var failure *rpc.Failure
	if err == nil || errors.As(err, &failure) && failure.Caller != nil {
		return err
	}
	b, _ := os.ReadFile(filepath.Join(dir, logName))
	var said []string
	const enough = 4
	for _, m := range errorLine.FindAllStringSubmatch(string(b), -1) {
		if len(said) < enough && !strings.Contains(m[1], noise) {
			said = append(said, strings.TrimSpace(m[1]))
		}
	}
	all := strings.Join(said, "; ")
	text := fmt.Sprintf("session %s can't be %s", name, verb)
	for _, c := range causes {
		if strings.Contains(all, c.sign) {
			return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("%s: %s (criu: %s)", text, c.why, all), Hint: c.fix}
		}
	}
	if all == "" {
		return fmt.Errorf("%s: %w", text, err)
	}
	return &driver.Error{Kind: driver.Transient, Text: text + ": criu says: " + all}
}
