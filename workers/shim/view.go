package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// rootTree gives the session's root, all layers joined, as a mount that is attached
// nowhere. A process of another mount namespace can attach it there.
func (p place) rootTree() (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, p.root(), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open the session's root: %w", err)
	}
	return os.NewFile(uintptr(fd), "root"), nil
}

// mountView mounts a view of a session's root, as rootTree gives it, at dir/root. What is
// written there goes into memory, limit bytes at most, and the session's own layer stays as
// it is, unless its processes change it. dir must be empty, and in the mount namespace of
// the caller, where everything is gone when the namespace is.
//
// The lower layer is the session's root as a whole and not its layers: overlay takes
// no two lower layers of which one lies in the other, as a directory in the data
// directory and / do. Without xino a file that the view has not copied up has the inode
// number that the session sees; its device, and the numbers of directories, differ. own is the
// device that files have which the view has of its own, and whose numbers differ, too.
func mountView(root *os.File, dir string, limit int64) (own uint64, err error) {
	if err := mountMemory(dir, limit); err != nil {
		return 0, err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"below", "upper", "work", "root"} {
		if err := os.Mkdir(at(d), 0o755); err != nil {
			return 0, fmt.Errorf("make a view of the session's root: %w", err)
		}
	}
	// A mount that is attached nowhere is taken as a layer by new kernels only.
	if err := unix.MoveMount(int(root.Fd()), "", unix.AT_FDCWD, at("below"), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return 0, fmt.Errorf("attach the session's root: %w", err)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=off,metacopy=off,index=off,xino=off",
		escapeLayer(at("below")), escapeLayer(at("upper")), escapeLayer(at("work")))
	if err := unix.Mount("overlay", at("root"), "overlay", unix.MS_NODEV, options); err != nil {
		return 0, fmt.Errorf("mount a view of the session's root: %w", err)
	}
	return ownDevice(at("root"))
}

// ownDevice finds the device number of files that an overlay has in its upper layer.
func ownDevice(root string) (uint64, error) {
	f, err := os.CreateTemp(root, ".view-")
	if err != nil {
		return 0, fmt.Errorf("write to a view of the session's root: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &st), os.Remove(f.Name())); err != nil {
		return 0, fmt.Errorf("look at a view of the session's root: %w", err)
	}
	return st.Dev, nil
}
