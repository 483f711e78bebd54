package adopted

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/preflight"
	"github.com/diapause/diapause/workers/shim/criu/mends"
)

// Examine looks at a tree and says what adopting it means. asking are processes that must not be in it.
func Examine(ctx context.Context, pid int, command []string, asking ...int) (Plan, error) {
	f, err := Look(pid, asking...)
	if errors.Is(err, errGone) {
		return Plan{}, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("there is no process %d", pid)}
	}
	if err != nil {
		return Plan{}, err
	}
	if p := Judge(f); len(p.Refused) > 0 { // of what isn't the host's no more can be said
		return p, nil
	}
	f.Blockers, f.Warnings, err = preflight.Check(ctx, living(f.Tree), checks(pid, command))
	return Judge(f), err
}

func checks(root int, command []string) preflight.Options {
	return preflight.Options{Init: root, GhostLimit: ghostLimit, Lacks: mends.Missing(command)}
}

func living(tree []Process) (pids []int) {
	for _, p := range tree {
		pids = append(pids, p.PID)
	}
	return pids
}

// Start implements driver.Driver: the tree that the spec names becomes the session, as it runs.
func (d *Driver) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	n, err := d.notes.pass(f)
	if err != nil {
		return driver.Instance{}, err
	}
	if n.Phase == here {
		return driver.Instance{}, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s is on this host already", f.Name)}
	}
	if err := d.clear(ctx, n); err != nil {
		return driver.Instance{}, err
	}
	if err := leased(f); err != nil {
		return driver.Instance{}, err
	}
	o, err := d.optionsOf(f, spec)
	if err != nil {
		return driver.Instance{}, err
	}
	plan, err := Examine(ctx, o.PID, d.options.Criu, os.Getpid())
	switch {
	case err != nil:
		return driver.Instance{}, err
	case plan.Start != o.Start:
		return driver.Instance{}, ended(f, o.PID)
	case len(plan.Refused) > 0:
		return driver.Instance{}, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("process %d can't become session %s", o.PID, f.Name), Blockers: plan.Refused}
	}
	n = note{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Phase: joining, PID: o.PID, Start: o.Start, Boot: o.Boot, Began: time.Now().UTC()}
	if n.Were, err = d.hierarchy.Where(o.PID); err != nil {
		return driver.Instance{}, orEnded(f, o.PID, err)
	}
	if err := d.notes.set(n); err != nil {
		return driver.Instance{}, err
	}
	if err := d.take(ctx, n, begin); err != nil {
		// It is left as it was found, also if the caller's context has ended.
		return driver.Instance{}, errors.Join(err, d.clear(context.WithoutCancel(ctx), n))
	}
	n.Phase, n.Were = here, nil
	if err := d.notes.set(n); err != nil {
		return driver.Instance{}, err
	}
	d.ends.await(n)
	return driver.Instance{UID: n.UID, Name: n.Name, Epoch: n.Epoch, State: driver.Running, PID: n.PID, Started: n.Began}, nil
}

// take puts the tree into its cgroup and has the caller record that it is a session.
func (d *Driver) take(ctx context.Context, n note, begin func(context.Context) error) error {
	g, err := d.hierarchy.Create(groupName(n.UID), cgroup.Limits{})
	if err != nil {
		return err
	}
	if err := d.join(ctx, g, n); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !alive(n.PID, n.Start) {
		return ended(driver.Fence{Name: n.Name}, n.PID)
	}
	return begin(ctx)
}

// The bounds of a tree that is adopted, and of the time for that.
const (
	mostProcesses = 4096
	joinLimit     = 20 * time.Second
)

// join puts a tree into a group that is frozen meanwhile, so that what is in can start no more.
func (d *Driver) join(ctx context.Context, g *cgroup.Group, n note) error {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	if err := g.Freeze(ctx); err != nil {
		return err
	}
	in := map[int]bool{}
	for {
		tree, err := Descendants(n.PID)
		if err != nil {
			return err
		}
		tree = slices.DeleteFunc(append(tree, n.PID), func(pid int) bool { return in[pid] })
		if len(tree) == 0 {
			break
		}
		if err := d.addAll(ctx, g, n, tree, in); err != nil {
			return err
		}
	}
	if err := g.Settle(ctx); err != nil {
		return err
	}
	return g.Thaw()
}

func (d *Driver) addAll(ctx context.Context, g *cgroup.Group, n note, pids []int, in map[int]bool) error {
	for _, pid := range pids {
		switch err := g.Add(pid); {
		case errors.Is(err, syscall.ESRCH) && pid == n.PID:
			return ended(driver.Fence{Name: n.Name}, n.PID)
		case err != nil && !errors.Is(err, syscall.ESRCH):
			return err
		}
		in[pid] = true
		if err := ctx.Err(); err != nil || len(in) > mostProcesses {
			return &driver.Error{
				Kind: driver.Refused, Text: fmt.Sprintf("session %s: process %d keeps starting others (%d so far)", n.Name, n.PID, len(in)),
				Hint: "adopt it when it is at rest",
			}
		}
	}
	return nil
}

// putBack undoes join: what was put into the group goes to where it was, and runs on.
func (d *Driver) putBack(g *cgroup.Group, n note) error {
	if err := g.Thaw(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := g.Leave(n.Were); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ended is the error of a process that was to be adopted and is gone.
func ended(f driver.Fence, pid int) error {
	return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("process %d has ended before it could become session %s", pid, f.Name)}
}

func orEnded(f driver.Fence, pid int, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return ended(f, pid)
	}
	return err
}
