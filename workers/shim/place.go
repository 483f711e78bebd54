package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/hide"
)

// place is where a session's files are: its directory on the host's disk, and
// what the shim mounts there in its own mount namespace, so that no other
// process sees it and it is gone with the shim.
type place struct {
	dir  string
	base string // the root below
	hide []hide.Path
	own  *layer // above it
}

func (p place) root() string      { return filepath.Join(p.dir, "root") }
func (p place) terminals() string { return filepath.Join(p.stand(), "dev", "pts") }
func (p place) stand() string     { return filepath.Join(p.dir, "stand") }
func (p place) scratch() string   { return filepath.Join(p.dir, "scratch") }
func (p place) middle() string    { return filepath.Join(p.dir, "middle") }
func (p place) images() string    { return filepath.Join(p.scratch(), "criu") }
func (p place) meta() string      { return filepath.Join(p.scratch(), "meta") }

func newPlace(s Setup) (place, error) {
	p := place{dir: s.Dir, base: s.Base(), hide: s.Hidden}
	// Slave, so that what the host unmounts is unmounted here too.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return p, fmt.Errorf("make the shim's mounts its own: %w", err)
	}
	if st, err := os.Stat(p.base); err != nil || !st.IsDir() {
		return p, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the root %s is not a directory on this host", p.base)}
	}
	for _, d := range []string{p.root(), p.stand(), p.scratch(), p.middle()} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return p, fmt.Errorf("make the session's directory: %w", err)
		}
	}
	var err error
	p.own, err = openLayer(s)
	return p, err
}

// mountRoot joins the layers. The middle one is used if anything is in it, and so is above what
// hides files of the host: what the session had open is there as it was.
func (p place) mountRoot() error {
	lower := escapeLayer(p.base)
	covers, err := p.cover()
	if err != nil {
		return err
	}
	if covers != "" {
		lower = escapeLayer(covers) + ":" + lower
	}
	middle, err := p.settledMiddle()
	if err != nil {
		return err
	}
	if middle != "" {
		lower = escapeLayer(middle) + ":" + lower
	}
	// xino gives all files one device number, by which criu finds watched ones.
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=off,metacopy=off,index=off,xino=on",
		lower, escapeLayer(p.own.upper()), escapeLayer(p.own.work()))
	if err := unix.Mount("overlay", p.root(), "overlay", unix.MS_NODEV, options); err != nil {
		return p.explainRoot(err)
	}
	if covers == p.covers() {
		drop(covers) // the overlay holds it
	}
	return nil
}

// explainRoot says why an overlay can't be mounted, as far as that is known.
func (p place) explainRoot(err error) error {
	var fs unix.Statfs_t
	if unix.Statfs(p.own.upper(), &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return refuseOverlay(p.dir, err)
	}
	return fmt.Errorf("mount the session's root, an overlay of %s and %s: %w", p.base, p.own.upper(), err)
}

func refuseOverlay(dir string, err error) error {
	return &driver.Error{Kind: driver.Refused, Err: err, Text: fmt.Sprintf("the data directory %s is on an overlay file system", dir), Hint: "put it on a disk or a volume"}
}

// escapeLayer writes a path so that overlay takes it as one.
func escapeLayer(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// mountTerminals makes the session's devpts instance. It returns a tree of
// mounts of its own, in which it is at dev/pts: a terminal that is opened there
// has the same name, /dev/pts/0, for who has it open inside the session.
func (p place) mountTerminals() (*os.File, error) {
	fail := func(err error) error { return fmt.Errorf("mount the session's terminals: %w", err) }
	if err := unix.Mount("tmpfs", p.stand(), "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=4k"); err != nil {
		return nil, fail(err)
	}
	if err := os.MkdirAll(p.terminals(), 0o755); err != nil {
		return nil, fail(err)
	}
	if err := unix.Mount("devpts", p.terminals(), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"); err != nil {
		return nil, fail(err)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, p.stand(), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return nil, fail(err)
	}
	return os.NewFile(uintptr(fd), "terminals"), nil
}

// mountMemory mounts a file system in memory that is never swapped out: it
// holds what must not reach a disk. It takes limit bytes at most, 0 for what the
// machine has.
func mountMemory(at string, limit int64) error {
	options := "mode=700,size=100%,nr_inodes=0"
	if limit > 0 {
		options = fmt.Sprintf("mode=700,size=%d,nr_inodes=0", limit)
	}
	err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options+",noswap")
	if err == unix.EINVAL { // the kernel is older than 6.4
		if swap, readErr := os.ReadFile("/proc/swaps"); readErr != nil || strings.Count(string(swap), "\n") > 1 {
			return &driver.Error{Kind: driver.Refused, Text: "memory of sessions could reach the disk: swap is on", Hint: "turn swap off (swapoff -a), or use Linux 6.4 or newer"}
		}
		err = unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
	}
	if err != nil {
		return fmt.Errorf("mount scratch memory: %w", err)
	}
	return nil
}

// mountScratch makes the directories for an image, which may take limit bytes.
func (p place) mountScratch(limit int64) error {
	if err := mountMemory(p.scratch(), limit); err != nil {
		return err
	}
	for _, d := range []string{p.images(), p.meta()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return fmt.Errorf("make scratch directory: %w", err)
		}
	}
	return nil
}

// largePages has the kernel take large pages for files of the scratch memory whose size is
// known before they are written, as in a restore: for a large image that takes a fifth of
// the time to write, and a quarter to read. It changes nothing where the kernel can't.
func (p place) largePages() {
	_ = unix.Mount("", p.scratch(), "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "huge=within_size")
}

// drop detaches a mount; its memory is freed when the last user closes it.
func drop(at string) {
	// If it isn't mounted there is nothing to let go.
	_ = unix.Unmount(at, unix.MNT_DETACH)
}
