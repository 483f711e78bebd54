package criu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/rootfs"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/criu/mends"
)

// Name is what sessions call this driver.
const Name schemas.DriverName = "criu"

// Options say how the driver runs here.
type Options struct {
	// Data is the directory for sessions' own files, sockets and fences. It must
	// be absolute and on a file system that overlay takes as an upper layer; it
	// is made with mode 0700, and hidden inside sessions.
	Data string
	// Hidden are further files and directories of the host that sessions don't see, such as
	// credentials: absolute paths, which needn't be there.
	Hidden []string
	// Instance keeps the cgroups of several drivers on one host apart: one token.
	Instance string
	// Self is the command line of a program that calls shim.Main with the arguments that
	// follow. If it is empty, that is the embedded program, or else {"/proc/self/exe", "shim"}.
	Self []string
	// Criu is the command line that runs criu, as Find gives it; Find is asked if
	// it is empty.
	Criu []string
	// Way says how images go out of a session and into it; driver.WayAuto if
	// empty.
	Way driver.Way
	// Room is how much memory an image may take on this host while it is captured
	// or restored, in bytes; what is free then, less a margin, if 0.
	Room int64
	// Directories has new sessions keep their private layer in a directory, as where there are
	// no loop devices: it doesn't keep inode numbers.
	Directories bool
	// URL is where programs in sessions find the NATS server, as their generation file
	// says; they are told of none if it is empty.
	URL string
	// Door says that the worker has an activitydoor.Door in Data, to which activity ports of sessions lead then.
	Door bool
	// Docker is the address of the engine whose images roots are made of, as rootfs.Open has it.
	Docker string
	// Failpoints has something go wrong between two steps, in tests; nil is nothing.
	Failpoints *failpoint.Set
}

// Driver is the driver. Its methods may be called from several goroutines.
type Driver struct {
	options  Options
	dir      dirs
	fences   fences
	shims    *shims
	budget   *budget
	digests  digests
	watchers watchers
	looks    looks
	roots    *rootfs.Store
	keeper   *network.Keeper // nil on a host that can't make private networks

	mu          sync.Mutex
	fingerprint schemas.Fingerprint // once it is known
	asked       string              // which files were criu then
}

var (
	_ driver.Driver      = (*Driver)(nil)
	_ driver.Watcher     = (*Driver)(nil)
	_ driver.Preflighter = (*Driver)(nil)
	_ driver.Observer    = (*Driver)(nil)
	_ driver.Dialer      = (*Driver)(nil)
	_ driver.Recorder    = (*Driver)(nil)
)

// dirs are the driver's directories.
type dirs struct{ run, sessions, fences string }

func (d dirs) session(uid schemas.UID) string { return filepath.Join(d.sessions, string(uid)) }

// New makes the driver's directories and cgroups. It starts no session.
func New(o Options) (*Driver, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the criu driver needs root: run it with sudo")
	}
	if !filepath.IsAbs(o.Data) {
		return nil, fmt.Errorf("the data directory %q must be an absolute path", o.Data)
	}
	if !schemas.ValidToken(o.Instance) {
		return nil, fmt.Errorf("the instance %q is not a token", o.Instance)
	}
	if o.Way == "" {
		o.Way = driver.WayAuto
	}
	if len(o.Criu) == 0 {
		var err error
		if o.Criu, err = Find(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	// What is hidden inside sessions is a real path.
	data, err := filepath.EvalSymlinks(o.Data)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	o.Data = data
	d := &Driver{options: o, dir: dirs{
		filepath.Join(data, "run"), filepath.Join(data, "sessions"), filepath.Join(data, "fences"),
	}}
	for _, dir := range []string{d.dir.run, d.dir.sessions, d.dir.fences} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the driver's directory: %w", err)
		}
	}
	d.fences.dir = d.dir.fences
	hierarchy, err := cgroup.Open(o.cgroups())
	if err != nil {
		return nil, err
	}
	program, err := openProgram(o.Self)
	if err != nil {
		return nil, err
	}
	d.shims = &shims{options: &d.options, dir: d.dir, hierarchy: hierarchy, program: program}
	d.budget = &budget{options: &d.options, hierarchy: hierarchy}
	if d.roots, err = rootfs.Open(filepath.Join(data, "roots"), o.Docker); err != nil {
		return nil, errors.Join(err, program.close())
	}
	d.keeper, _ = network.Keep() // of a host where that fails, doctor says that it can't make private networks
	return d, nil
}

// Close removes the driver's cgroups if no session is left in them. Sessions go
// on without it.
func (d *Driver) Close() error {
	d.keeper.Close()
	return errors.Join(d.shims.hierarchy.Remove(), d.shims.program.close())
}

func (o Options) cgroups() string { return "diapause/" + o.Instance }

func checkUID(uid schemas.UID) error {
	if !schemas.ValidToken(string(uid)) {
		return fmt.Errorf("session uid %q is not a token", uid)
	}
	return nil
}

// Fingerprint asks criu for its version, unless its files are those of the last
// time, and the machine for its own.
func (d *Driver) Fingerprint(ctx context.Context) (schemas.Fingerprint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := identity(d.options.Criu)
	if files != "" && files == d.asked {
		return d.fingerprint, nil
	}
	fp, err := Describe(ctx, d.options.Criu)
	if err != nil {
		return schemas.Fingerprint{}, err
	}
	d.fingerprint, d.asked = fp, files
	return fp, nil
}

// Describe says what this host can do with the criu of a command line.
func Describe(ctx context.Context, command []string) (schemas.Fingerprint, error) {
	version, err := Version(ctx, command)
	if err != nil {
		return schemas.Fingerprint{}, err
	}
	return fingerprint(version, mends.Kept(command))
}

func fingerprint(version string, patches []string) (schemas.Fingerprint, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return schemas.Fingerprint{}, fmt.Errorf("ask for the kernel's version: %w", err)
	}
	needs, err := cpuFeatures()
	if err != nil {
		return schemas.Fingerprint{}, err
	}
	needs = append(needs, schemas.ImageLayer)
	for _, p := range patches {
		needs = append(needs, schemas.CriuNeed+p)
	}
	slices.Sort(needs)
	return schemas.Fingerprint{
		Arch: goarch, Kernel: unix.ByteSliceToString(u.Release[:]), Driver: Name, Keeps: schemas.KeepsMemory,
		Engine: "criu " + version, CPU: needs, Base: "host",
	}, nil
}

// Thaw lets a frozen session run on.
func (d *Driver) Thaw(ctx context.Context, f driver.Fence) error {
	if err := d.pass(f); err != nil {
		return err
	}
	_, err := d.shims.order(ctx, f.UID, shim.Order{Op: shim.OrderThaw, Epoch: f.Epoch, Lease: shim.LeaseOf(f)})
	return err
}

// Renew tells a session that its host's lease was renewed.
func (d *Driver) Renew(ctx context.Context, f driver.Fence) error {
	if err := checkUID(f.UID); err != nil {
		return err
	}
	_, err := d.shims.order(ctx, f.UID, shim.Order{Op: shim.OrderRenew, Lease: shim.LeaseOf(f)})
	return err
}

func (d *Driver) pass(f driver.Fence) error {
	if err := checkUID(f.UID); err != nil {
		return err
	}
	return d.fences.pass(f.UID, f.Epoch)
}

// Dial connects to the session's shim, to speak the protocol of package attach.
func (d *Driver) Dial(ctx context.Context, uid schemas.UID) (net.Conn, error) {
	if err := checkUID(uid); err != nil {
		return nil, err
	}
	return d.shims.dial(ctx, "unix", shim.StreamSocket(uid))
}

// Inspect says how one session is on this host now.
func (d *Driver) Inspect(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	if err := checkUID(uid); err != nil {
		return driver.Instance{}, err
	}
	i, err := d.shims.status(ctx, uid)
	if !errors.Is(err, driver.ErrNotHere) {
		return i, err
	}
	state, readErr := d.shims.readState(uid)
	if errors.Is(readErr, fs.ErrNotExist) {
		return i, err
	}
	if readErr != nil {
		return i, readErr
	}
	return instanceOf(buried(state), false), nil
}

// Preflight says what would stop a capture now.
func (d *Driver) Preflight(ctx context.Context, uid schemas.UID) ([]driver.Blocker, error) {
	m, err := d.shims.order(ctx, uid, shim.Order{Op: shim.OrderPreflight})
	return m.Blockers, err
}

// SealRecorded has the session's shim spill what it recorded.
func (d *Driver) SealRecorded(ctx context.Context, uid schemas.UID) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	_, err := d.shims.order(ctx, uid, shim.Order{Op: shim.OrderRecord})
	return err
}

// RedactShown has the session's shim take something out of what it holds of the output and the screen.
func (d *Driver) RedactShown(ctx context.Context, uid schemas.UID, expression string) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	_, err := d.shims.order(ctx, uid, shim.Order{Op: shim.OrderRedact, Match: expression})
	return err
}

// Stop kills what is left of the session and removes all that it had here.
func (d *Driver) Stop(ctx context.Context, f driver.Fence) error {
	if err := d.pass(f); err != nil {
		return err
	}
	d.watchers.forget(f.UID)
	d.looks.forget(f.UID)
	_, err := d.shims.order(ctx, f.UID, shim.Order{Op: shim.OrderStop, Epoch: f.Epoch})
	if err != nil && !errors.Is(err, driver.ErrNotHere) {
		return err
	}
	if err := d.shims.remove(ctx, f.UID); err != nil {
		return err
	}
	return d.releaseTrial(f.UID)
}
