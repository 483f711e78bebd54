package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// program is this program's own file, in a form that a session which sees it run
// can't write to.
type program struct {
	file *os.File
}

const ownFile = "/proc/self/exe"

func openProgram() (*program, error) {
	f, err := readOnlyProgram()
	if err != nil {
		// It was replaced since it was started, or its mount can't be cloned.
		if f, err = sealedProgram(); err != nil {
			return nil, fmt.Errorf("open the program's own file: %w", err)
		}
	}
	return &program{f}, nil
}

// readOnlyProgram opens it through a read-only mount that nothing else uses.
func readOnlyProgram() (*os.File, error) {
	path, err := os.Readlink(ownFile)
	if err != nil {
		return nil, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "program")
	var own, opened unix.Stat_t
	err = errors.Join(unix.Stat(ownFile, &own), unix.Fstat(fd, &opened),
		unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
	if err == nil && (own.Dev != opened.Dev || own.Ino != opened.Ino) {
		err = errors.New("it was replaced")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sealedProgram copies it into memory that nobody can write to any more.
func sealedProgram() (*os.File, error) {
	own, err := os.Open(ownFile)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "program")
	_, err = io.Copy(f, own)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// stage prepares a run of this program as a stage of that kind. It must be
// started on the calling thread if that has entered other namespaces.
func (p *program) stage(self []string, kind string, flags uintptr, files []*os.File) *exec.Cmd {
	return &exec.Cmd{
		// Resolved by the new process, in the mount namespace where it starts.
		Path:        fmt.Sprintf("/proc/self/fd/%d", p.file.Fd()),
		Args:        append(append([]string(nil), self...), "stage", kind),
		Env:         []string{},
		Dir:         "/",
		ExtraFiles:  files,
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: flags, Setsid: true},
	}
}
