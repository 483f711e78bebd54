package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
	"github.com/diapause/diapause/workers/shim/stage"
	"github.com/diapause/diapause/workers/shim/tiny"
)

// program is this program's own file, in a form that a session can't write to.
type program struct {
	file  *os.File
	enter *os.File // the program that brings it into a session
	own   *os.File // the program that starts criu to restore one
	aside func() error
}

const ownFile = "/proc/self/exe"

func openProgram() (*program, error) {
	f, err := programInMemory()
	if err != nil {
		f, err = readOnlyProgram()
	}
	if err != nil {
		// It was replaced since it was started, or its mount can't be cloned.
		if f, err = sealedProgram(); err != nil {
			return nil, fmt.Errorf("open the program's own file: %w", err)
		}
	}
	p := &program{}
	enter, err := openTiny(tiny.Enter)
	if err != nil {
		return nil, err
	}
	if p.own, err = openTiny(tiny.Own); err != nil {
		return nil, err
	}
	p.aside = sync.OnceValue(func() (err error) {
		// The highest first: the kernel makes room for both at once then.
		if p.enter, err = outOfTheWay(enter, enterFD); err == nil {
			p.file, err = outOfTheWay(f, fileFD)
		}
		return err
	})
	// It takes a grace period of the kernel's, 10 ms, and isn't needed yet.
	go func() { _ = p.aside() }()
	return p, nil
}

// openTiny places one of the tiny programs in memory.
func openTiny(code func() ([]byte, error)) (*os.File, error) {
	b, err := code()
	if err != nil {
		return nil, &driver.Error{Kind: driver.Refused, Text: err.Error()}
	}
	f, err := Sealed(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("place a program in memory: %w", err)
	}
	return f, nil
}

// A program is executed by its descriptor after those that the new process gets
// have taken their places, from 3 up, and with others used on the way, from the
// highest one that it gets. So these are out of the way of all that, and of
// each other.
const (
	fileFD  = 100
	enterFD = 300
)

func outOfTheWay(f *os.File, highest int) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, highest)
	if err != nil {
		return nil, fmt.Errorf("open the program's own file: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
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

// sealedProgram copies it into memory.
func sealedProgram() (*os.File, error) {
	own, err := os.Open(ownFile)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	return Sealed(own)
}

// programInMemory opens it if it is in memory that can't be written to any more.
func programInMemory() (*os.File, error) {
	own, err := os.Open(ownFile)
	if err != nil {
		return nil, err
	}
	seals, err := unix.FcntlInt(own.Fd(), unix.F_GET_SEALS, 0)
	if err == nil && seals&allSeals != allSeals {
		err = errors.New("it could be written to")
	}
	if err != nil {
		own.Close()
		return nil, err
	}
	return own, nil
}

// ProgramName is the name of a program in memory, and the one by which a shim's own
// program is called.
const ProgramName = "diapause-shim"

const allSeals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// Sealed puts a program into memory that can't be written to any more.
func Sealed(content io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(ProgramName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ProgramName)
	_, err = io.Copy(f, content)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, allSeals)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// procPath is resolved by a new process, in the mount namespace where it executes it.
func procPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// first prepares a run of this program as the first process of new namespaces.
func (p *program) first(self []string, namespaces uintptr, files []*os.File) (*exec.Cmd, error) {
	if err := p.aside(); err != nil {
		return nil, err
	}
	return &exec.Cmd{
		Path: procPath(p.file), Args: append(append([]string(nil), self...), "stage", stage.First),
		Env: []string{}, Dir: "/", ExtraFiles: files,
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true},
	}, nil
}

// apart starts criu in a group with a session keyring of its own, and a cgroup namespace of which that
// group is the root: what it restores has them.
func (p *program) apart(group *cgroup.Group) rpc.Starter {
	return func(cmd *exec.Cmd) error {
		if cmd.Err != nil {
			return cmd.Err
		}
		cmd.Args = append([]string{"own", cmd.Path}, cmd.Args[1:]...)
		// Ours: while a child is made, its descriptors change places.
		cmd.Path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.own.Fd())
		return group.Start(cmd)
	}
}

// join prepares a run of this program as a stage inside the session of which the
// second file is a pidfd. It goes on when it has read what tiny.EnterFilter gives from gate.
func (p *program) join(self []string, capabilities uint64, gate *os.File, files []*os.File) (*exec.Cmd, error) {
	if err := p.aside(); err != nil {
		return nil, err
	}
	// It is handed on once more, so it gets a number in the new process.
	own := len(files) + firstExtra
	args := []string{"enter", tiny.EnterMask(capabilities), fmt.Sprintf("/proc/self/fd/%d", own)}
	args = append(append(args, self...), "stage", stage.Join)
	return &exec.Cmd{
		Path: procPath(p.enter), Args: args,
		Env: []string{}, Dir: "/", Stdin: gate, ExtraFiles: append(files, p.file),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}, nil
}

// firstExtra is the number of the first of a command's extra files.
const firstExtra = 3
