package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Stranger are the attempts of a user of the machine who has no credentials.
func Stranger() []Attempt {
	eacces := []string{"EACCES"}
	own := func(file string) func(Facts) error {
		return each(func(pid int) error { return content(fmt.Sprintf("/proc/%d/%s", pid, file)) })
	}
	return slices.Concat([]Attempt{
		{What: "list the data directory", Want: eacces, Control: true, Try: func(f Facts) error { return list(f.Data) }},
		{What: "read keys and credentials", Want: eacces, Control: true, Try: func(f Facts) error { return secrets(f, "") }},
		{What: "connect to unix sockets of workers and shims", Want: eacces, Try: func(f Facts) error { return dial("unix", filepath.Join(f.Data, "run", "x")) }},
		{What: "read environments of Diapause's processes", Want: eacces, Control: true, Try: own("environ")},
		{What: "read their memory", Want: eacces, Try: own("mem")},
		{What: "list their descriptors", Want: eacces, Control: true, Try: each(func(pid int) error { return second2(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))) })},
		{What: "enter a session's root", Want: eacces, Try: own("root/etc/hostname")},
		{What: "open a session's network", Want: eacces, Control: true, Try: each(func(pid int) error { return openFor(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY) })},
		{What: "kill Diapause's processes", Want: eperm, Try: each(func(pid int) error { return unix.Kill(pid, unix.SIGKILL) })},
		{What: "stop them", Want: eperm, Try: each(func(pid int) error { return unix.Kill(pid, unix.SIGSTOP) })},
		{What: "trace them", Want: eperm, Try: spare(each(unix.PtraceAttach))},
		{What: "set their limits", Want: eperm, Try: each(func(pid int) error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil) })},
		{What: "take a descriptor of theirs", Want: eperm, Try: each(func(pid int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return second(unix.PidfdGetfd(fd, 0, 0))
		})},
		{What: "move processes into their cgroups", Want: []string{string(nowhere)}, Control: true, Try: named("/sys/fs/cgroup", "cgroup.procs")},
	}, clients(), garbledClient(), web())
}

func second2[T any](_ T, err error) error { return err }
