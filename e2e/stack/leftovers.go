package stack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore/segment"
	"github.com/diapause/diapause/schemas"
)

// leaveWait bounds the wait for what is on its way out: the kernel takes a
// moment to end processes and released their mounts.
const leaveWait = 10 * time.Second

// Leftovers says what the stack has left on the machine, once its sessions are
// removed and the daemon has stopped.
func (s *Stack) Leftovers() error {
	for deadline := time.Now().Add(leaveWait); ; time.Sleep(20 * time.Millisecond) {
		err := s.leftovers()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (s *Stack) leftovers() error {
	var all []error
	for _, pid := range s.PIDs() {
		all = append(all, fmt.Errorf("process %d is left: %s", pid, commandLine(pid)))
	}
	for _, m := range s.mounts() {
		all = append(all, fmt.Errorf("a mount is left: %s", m))
	}
	for _, g := range s.groups() {
		all = append(all, fmt.Errorf("cgroup %s is left", g))
	}
	for _, dir := range []string{"run", "sessions", "objects"} {
		files, err := filesBelow(filepath.Join(s.Data, dir))
		if err != nil {
			all = append(all, err)
		}
		for _, f := range files {
			if dir == "objects" && strings.HasPrefix(f, filepath.Join(s.Data, dir, segment.Prefix)) {
				continue // the log is kept
			}
			all = append(all, fmt.Errorf("file %s is left", f))
		}
	}
	return errors.Join(all...)
}

func filesBelow(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// PIDs lists the processes in the host's cgroups, or with its data directory in
// their command line.
func (s *Stack) PIDs() (pids []int) {
	for _, pid := range allPIDs() {
		if pid == os.Getpid() {
			continue
		}
		group := readFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if strings.Contains(group, "/diapause/"+s.Host+"/") || strings.Contains(commandLine(pid), s.Data+" ") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (s *Stack) mounts() (lines []string) {
	seen := map[string]bool{}
	for _, pid := range allPIDs() {
		for line := range strings.Lines(readFile(fmt.Sprintf("/proc/%d/mountinfo", pid))) {
			if strings.Contains(line, s.Data+"/") && !seen[line] {
				seen[line] = true
				lines = append(lines, fmt.Sprintf("%s (seen by process %d)", strings.TrimSpace(line), pid))
			}
		}
	}
	return lines
}

// groups lists the cgroups of the host, in every hierarchy.
func (s *Stack) groups() (dirs []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/diapause/", "/sys/fs/cgroup/*/diapause/", "/sys/fs/cgroup/*/*/diapause/"} {
		for _, below := range []string{"", "/*"} {
			found, err := filepath.Glob(pattern + s.Host + below)
			if err != nil {
				continue // of a constant pattern: it has none
			}
			for _, f := range found {
				if st, err := os.Stat(f); err == nil && st.IsDir() {
					dirs = append(dirs, f)
				}
			}
		}
	}
	return dirs
}

func thaw(group string) {
	for name, word := range map[string]string{"freezer.state": "THAWED", "cgroup.freeze": "0"} {
		if f, err := os.OpenFile(filepath.Join(group, name), os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString(word) // this is clearing up after a failure
			f.Close()
		}
	}
}

func allPIDs() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func commandLine(pid int) string {
	return strings.ReplaceAll(readFile(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " ")
}

// Processes counts the processes that the host has in the cgroup of a session,
// with those of its shim.
func (s *Stack) Processes(uid schemas.UID) (n int) {
	for _, pid := range allPIDs() {
		group := readFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if strings.Contains(group, "/diapause/"+s.Host+"/") && strings.Contains(group, "-"+string(uid)) {
			n++
		}
	}
	return n
}

// Leaders counts the process trees of a session: the processes that are pid 1 of
// a namespace of their own.
func (s *Stack) Leaders(uid schemas.UID) (n int) {
	for _, pid := range allPIDs() {
		if !strings.Contains(readFile(fmt.Sprintf("/proc/%d/cgroup", pid)), "-"+string(uid)) {
			continue
		}
		for line := range strings.Lines(readFile(fmt.Sprintf("/proc/%d/status", pid))) {
			ids, ok := strings.CutPrefix(line, "NSpid:")
			if inner := strings.Fields(ids); ok && len(inner) > 1 && inner[len(inner)-1] == "1" {
				n++
			}
		}
	}
	return n
}
