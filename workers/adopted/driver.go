package adopted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/lease/term"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/criu"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/tree"
)

// Name is what sessions call this driver.
const Name = adoptspec.Driver

// Options configure the driver.
type Options struct {
	// Data is the directory of the driver's notes. It is made with mode 0700.
	Data string
	// Instance is a token that keeps the drivers on one machine apart, and tells this host from others.
	Instance string
	// Criu is the command line that runs criu; criu.Find is asked if it is empty.
	Criu []string
	// Failpoints make steps fail in tests. Nil does nothing.
	Failpoints *failpoint.Set
}

// Driver is the driver. It is safe for concurrent use.
type Driver struct {
	options   Options
	notes     *notes
	hierarchy *cgroup.Hierarchy
	ends      ends
}

var (
	_ driver.Driver      = (*Driver)(nil)
	_ driver.Watcher     = (*Driver)(nil)
	_ driver.Preflighter = (*Driver)(nil)
	_ driver.Observer    = (*Driver)(nil)
	_ driver.Advisor     = (*Driver)(nil)
	_ driver.Forgetter   = (*Driver)(nil)
)

// New makes the driver's directory and cgroups.
func New(o Options) (*Driver, error) {
	if !filepath.IsAbs(o.Data) {
		return nil, fmt.Errorf("data directory %q must be an absolute path", o.Data)
	}
	if !schemas.ValidToken(o.Instance) {
		return nil, fmt.Errorf("the instance %q is not a token", o.Instance)
	}
	if len(o.Criu) == 0 {
		var err error
		if o.Criu, err = criu.Find(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return nil, fmt.Errorf("create the process driver's directory: %w", err)
	}
	// Beside the criu driver's: each removes what it has none of at its start.
	h, err := cgroup.Open("diapause/" + o.Instance + "-adopted")
	if err != nil {
		return nil, err
	}
	return &Driver{options: o, notes: &notes{dir: o.Data}, hierarchy: h}, nil
}

// Close removes the driver's cgroups if no session is left in them. Sessions go on without it.
func (d *Driver) Close() error { return d.hierarchy.Remove() }

// Fingerprint implements driver.Driver. Its base is this host: no other one has the files and pids
// that a snapshot needs.
func (d *Driver) Fingerprint(ctx context.Context) (schemas.Fingerprint, error) {
	fp, err := criu.Describe(ctx, d.options.Criu)
	if err != nil {
		return schemas.Fingerprint{}, err
	}
	fp.Driver, fp.Base = Name, d.options.Instance
	return fp, nil
}

// Check refuses a spec that names no process. It may be restored: then none is named that runs.
func Check(spec schemas.Spec) error {
	o, ok, err := adoptspec.Of(spec)
	if err == nil && (!ok || o.PID <= 0) {
		err = errors.New("no process is named")
	}
	return err
}

// optionsOf gives the options of a session of this boot of the machine.
func (d *Driver) optionsOf(f driver.Fence, spec schemas.Spec) (adoptspec.Options, error) {
	o, ok, err := adoptspec.Of(spec)
	if err != nil {
		return o, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s", f.Name), Err: err}
	}
	if !ok || o.PID <= 0 {
		return o, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s names no process", f.Name), Hint: "name one: `diapause adopt --pid PID`"}
	}
	boot, err := MachineBoot()
	if err != nil {
		return o, err
	}
	if o.Boot != boot {
		return o, &driver.Error{
			Kind: driver.Refused, Text: fmt.Sprintf("session %s: process %d is another machine's, or boot's", f.Name, o.PID),
			Hint: "start the program, and adopt it on its own host",
		}
	}
	return o, nil
}

// groupName is what a session's cgroup is called.
func groupName(uid schemas.UID) string { return string(uid) }

// group gives the cgroup of a session.
func (d *Driver) group(uid schemas.UID) (*cgroup.Group, bool) {
	return d.hierarchy.Group(groupName(uid))
}

// hereNow gives the note of a session that is on this host.
func (d *Driver) hereNow(f driver.Fence) (note, *cgroup.Group, error) {
	n, err := d.notes.pass(f)
	if err != nil {
		return n, nil, err
	}
	g, ok := d.group(f.UID)
	if n.Phase != here || !ok {
		return n, nil, driver.ErrNotHere
	}
	return n, g, nil
}

// Inspect implements driver.Driver.
func (d *Driver) Inspect(_ context.Context, uid schemas.UID) (driver.Instance, error) {
	n, err := d.notes.read(uid)
	if err != nil {
		return driver.Instance{}, err
	}
	if n.Phase != here {
		return driver.Instance{}, driver.ErrNotHere
	}
	return d.instance(n)
}

// instance says how a session is that is on this host.
func (d *Driver) instance(n note) (driver.Instance, error) {
	i := driver.Instance{UID: n.UID, Name: n.Name, Epoch: n.Epoch, Started: n.Began, State: driver.Running, PID: n.PID}
	boot, err := MachineBoot()
	if err != nil {
		return i, err
	}
	if n.Boot != boot {
		i.State, i.PID, i.Lost, i.Restarted = driver.Exited, 0, true, true
		i.Exit = &schemas.ExitStatus{Code: unknownEnd, Reason: "the machine was restarted"}
		return i, nil
	}
	if n.Exit != nil {
		i.State, i.PID, i.Exit = driver.Exited, 0, n.Exit
		return i, nil
	}
	if !alive(n.PID, n.Start) {
		exit := d.ends.of(n)
		i.State, i.PID, i.Exit = driver.Exited, 0, &exit
		return i, nil
	}
	g, ok := d.group(n.UID)
	if !ok {
		return i, fmt.Errorf("session %s: its cgroup is gone, and process %d runs", n.Name, n.PID)
	}
	frozen, err := g.State()
	if frozen {
		i.State = driver.Frozen
	}
	return i, err
}

// alive reports whether a process runs that was started at a time.
func alive(pid int, start uint64) bool {
	p, err := statOf(pid)
	return err == nil && p.Start == start && p.State != 'Z' && p.State != 'X'
}

// Thaw implements driver.Driver.
func (d *Driver) Thaw(_ context.Context, f driver.Fence) error {
	_, g, err := d.hereNow(f)
	if err != nil {
		return err
	}
	if err := leased(f); err != nil {
		return err
	}
	return g.Thaw()
}

// leased refuses to have a session run on a host whose lease is over.
func leased(f driver.Fence) error {
	if f.Lease == nil {
		return nil
	}
	if over := term.Now().Sub(f.Lease().Until); over >= 0 {
		return fmt.Errorf("session %s: %w %v ago", f.Name, driver.ErrNoLease, over.Round(time.Millisecond))
	}
	return nil
}

// Stop implements driver.Driver. What was never recorded to run is left as it was found.
func (d *Driver) Stop(ctx context.Context, f driver.Fence) error {
	n, err := d.notes.pass(f)
	if err != nil {
		return err
	}
	return d.clear(ctx, n)
}

// clear removes what a session has on this host.
func (d *Driver) clear(ctx context.Context, n note) error {
	d.ends.forget(n.UID)
	if g, ok := d.group(n.UID); ok {
		if n.Phase == joining {
			if err := d.putBack(g, n); err != nil {
				return err
			}
		} else if err := g.Kill(ctx); err != nil {
			return fmt.Errorf("end session %s: %w", n.Name, err)
		}
		if err := g.Remove(); err != nil {
			return err
		}
	}
	if err := d.dropScratch(n.UID); err != nil {
		return err
	}
	if n.Phase == gone {
		return nil
	}
	return d.notes.set(note{UID: n.UID, Name: n.Name, Epoch: n.Epoch, Phase: gone})
}

// Forget implements driver.Forgetter.
func (d *Driver) Forget(_ context.Context, f driver.Fence) error { return d.notes.forget(f.UID) }

// Recover implements driver.Driver.
func (d *Driver) Recover(ctx context.Context) (out []driver.Instance, err error) {
	all, err := d.notes.all()
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		if err := d.awaitDump(ctx, n.UID); err != nil {
			return nil, err
		}
		if n.Phase != here {
			if err := d.clear(ctx, n); err != nil {
				return nil, err
			}
			continue
		}
		if err := d.dropScratch(n.UID); err != nil {
			return nil, err
		}
		i, err := d.instance(n)
		if err != nil {
			return nil, err
		}
		if i.State != driver.Exited {
			d.ends.await(n)
		}
		out = append(out, i)
	}
	return out, d.notes.prune(time.Now())
}

// Observe implements driver.Observer.
func (d *Driver) Observe(_ context.Context, uid schemas.UID) (driver.Observation, error) {
	n, err := d.notes.read(uid)
	if err != nil {
		return driver.Observation{}, err
	}
	g, ok := d.group(uid)
	if n.Phase != here || !ok {
		return driver.Observation{}, driver.ErrNotHere
	}
	pids, err := g.Pids()
	if err != nil {
		return driver.Observation{}, err
	}
	o := driver.Observation{PID: n.PID, Processes: len(pids)}
	if o.CPU, err = g.CPU(); err != nil {
		return o, err
	}
	if o.RSS, err = tree.Memory(pids); err != nil {
		return o, err
	}
	connections, listens, err := tree.TCP(pids)
	for _, c := range connections {
		if c.Inbound {
			o.Inbound++
		}
	}
	o.Listens = listens
	return o, err
}

// Advise implements driver.Advisor: what isn't isolated is to be seen for as long as it runs.
func (d *Driver) Advise(schemas.Spec) []schemas.Warning {
	return []schemas.Warning{{
		Code: schemas.WarnNotIsolated, Subject: string(Name),
		Text: "the session was adopted, so nothing isolates it: it has the host's processes, network, files and devices, no filter of system calls and no limits of its own",
	}}
}

// dropScratch removes the memory that held an image.
func (d *Driver) dropScratch(uid schemas.UID) error {
	dir := d.scratch(uid)
	err := unix.Unmount(dir, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount the scratch memory %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the scratch directory: %w", err)
	}
	return nil
}

func (d *Driver) scratch(uid schemas.UID) string {
	return filepath.Join(d.options.Data, string(uid)+".scratch")
}

// mountScratch makes memory for an image. It is a mount of the host: in a mount namespace of its own
// criu would take the host's mounts for those of the tree.
func (d *Driver) mountScratch(uid schemas.UID) (string, error) {
	if err := d.dropScratch(uid); err != nil {
		return "", err
	}
	dir := d.scratch(uid)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the scratch directory: %w", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700,size=90%"); err != nil {
		return "", fmt.Errorf("mount scratch memory: %w", err)
	}
	// No other mount namespace is to hold it.
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("keep scratch memory apart: %w", err)
	}
	return dir, nil
}
