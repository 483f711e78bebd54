package ext4

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoLoop says that this machine can't mount a file: there are no loop devices, or they
// can't discard.
var ErrNoLoop = errors.New("no loop devices")

const (
	loopControl = "/dev/loop-control"
	loopMajor   = 7
	// attachLimit bounds how long Mount tries to get a device: others take what is free, too.
	attachLimit = 10 * time.Second
)

// Mount mounts the file system in a file at a directory, in the caller's mount namespace. The
// device is gone with the last mount. It returns the device's name, "loop0" or the like.
//
// Nothing is flushed to the disk for programs that sync: what the machine loses in a crash
// is a session that is lost with its memory anyway. Blocks that are freed are discarded at
// once, so that the file takes no more room than what is in it.
func Mount(f *os.File, at string) (device string, err error) {
	loop, device, err := attach(f)
	if err != nil {
		return "", fmt.Errorf("attach a file system: %w", err)
	}
	defer loop.Close()
	if err := unix.Mount("/dev/"+device, at, "ext4", 0, "discard,nobarrier,noinit_itable,no_prefetch_block_bitmaps"); err != nil {
		return "", fmt.Errorf("mount a file system: %w", err)
	}
	fewGroups(device)
	return device, nil
}

// fewGroups has the first allocation read the bitmaps of the groups that it needs, and not of
// all, which are two thousand, mostly of nothing: that takes 30 ms. It changes nothing where
// /sys can't be written, as in a container.
func fewGroups(device string) {
	_ = os.WriteFile("/sys/fs/ext4/"+device+"/mb_prefetch", []byte("0"), 0)
}

// attach finds a free loop device and makes it one of the file. The device stays until it
// is closed and not mounted.
func attach(f *os.File) (*os.File, string, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNoLoop, err)
	}
	defer control.Close()
	for deadline := time.Now().Add(attachLimit); ; runtime.Gosched() {
		loop, name, err := attachFree(control, f)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return loop, name, err
		}
	}
}

func attachFree(control, f *os.File) (*os.File, string, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNoLoop, err)
	}
	name := fmt.Sprintf("loop%d", number)
	loop, err := openLoop("/dev/"+name, number)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNoLoop, err)
	}
	config := unix.LoopConfig{Fd: uint32(f.Fd()), Size: BlockSize, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); err != nil {
		loop.Close()
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) {
			err = fmt.Errorf("%w: %w", ErrNoLoop, err)
		}
		return nil, "", err
	}
	if limit, err := os.ReadFile("/sys/block/" + name + "/queue/discard_max_bytes"); err == nil && string(limit) == "0\n" {
		loop.Close()
		return nil, "", fmt.Errorf("%w: the file's own file system can't discard", ErrNoLoop)
	}
	return loop, name, nil
}

// openLoop opens a device. In a container it may have no name yet.
func openLoop(path string, number int) (*os.File, error) {
	loop, err := os.OpenFile(path, os.O_RDWR, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return loop, err
	}
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(number)))); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// Try reports why files of a directory can't be mounted, if so. It leaves nothing there.
func Try(dir string) error {
	f, err := os.CreateTemp(dir, "layer-")
	if err != nil {
		return fmt.Errorf("try a file system: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := Format(f, 1, time.Now()); err != nil {
		return err
	}
	loop, _, err := attach(f)
	if err != nil {
		return fmt.Errorf("attach a file system: %w", err)
	}
	return loop.Close()
}
