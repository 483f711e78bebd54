package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts a command, which must have no Stdin, in the group: its program begins there.
//
// It takes a millisecond or two. To put a process there by Add takes 10, on a busy machine
// 100: the kernel waits then until no process is being started or ends anywhere. It needn't
// if the process is born in the group, which version 2 has, or enters by itself as one
// thread, which version 1 has: for that a shell comes before the program.
func (g *Group) Start(cmd *exec.Cmd) error {
	if cmd.Stdin != nil {
		return fmt.Errorf("start %s in cgroup %s: it has an input", cmd.Path, g.name)
	}
	var enter []string
	for i, m := range g.h.layout.mounts {
		switch {
		case m.version == 1:
			enter = append(enter, filepath.Join(g.dir(i), "tasks"))
		case bornInGroup():
			dir, err := os.Open(g.dir(i))
			if err != nil {
				return fmt.Errorf("start %s in cgroup %s: %w", cmd.Path, g.name, err)
			}
			defer dir.Close()
			if cmd.SysProcAttr == nil {
				cmd.SysProcAttr = &syscall.SysProcAttr{}
			}
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		default:
			enter = append(enter, filepath.Join(g.dir(i), "cgroup.procs"))
		}
	}
	err := startThrough(cmd, enter)
	if err != nil {
		return fmt.Errorf("start %s in cgroup %s: %w", cmd.Path, g.name, err)
	}
	return nil
}

// bornInGroup reports whether a process can be born in a group of version 2: the call for it
// exists since Linux 5.3, and some filters of system calls deny that it does.
var bornInGroup = sync.OnceValue(func() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return errno == unix.EINVAL
})

// entering writes 0 into each file before "--", says so, and becomes the command after it.
const entering = `{ until [ "$1" = -- ]; do echo 0 >"$1" || exit 1; shift; done; echo in; } 2>&0 >&0
shift
exec "$@" </dev/null`

// startThrough starts a command once its process has written 0 into the files.
func startThrough(cmd *exec.Cmd, files []string) error {
	if len(files) == 0 {
		return cmd.Start()
	}
	said, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	program := cmd.Path
	if rest, ok := strings.CutPrefix(program, "/proc/self/"); ok { // ours, not the shell's
		program = fmt.Sprintf("/proc/%d/%s", os.Getpid(), rest)
	}
	words := append(append([]string{"sh", "-c", entering, "sh"}, files...), "--", program)
	cmd.Path, cmd.Args, cmd.Stdin = "/bin/sh", append(words, cmd.Args[min(1, len(cmd.Args)):]...), says
	err = cmd.Start()
	says.Close()
	if err != nil {
		return err
	}
	answer, err := bufio.NewReader(said).ReadString('\n')
	if answer == "in\n" {
		return nil
	}
	rest, _ := io.ReadAll(said) // it ends, and says nothing else
	_ = cmd.Wait()
	return errors.Join(fmt.Errorf("it didn't come in: %s", strings.TrimSpace(answer+string(rest))), err)
}
