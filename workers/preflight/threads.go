package preflight

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What kcmp compares: include/uapi/linux/kcmp.h.
const (
	kcmpMemory  = 1
	kcmpFiles   = 2
	kcmpPlaces  = 3
	kcmpSignals = 4
)

// kcmp compares what two threads have of a kind: 0 is the same, 1 and 2 give an order.
func kcmp(a, b, kind int) (order int, ok bool) {
	n, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), uintptr(kind), 0, 0, 0)
	return int(n), errno == 0
}

// adminBit is that of CAP_SYS_ADMIN, without which no thread enters a namespace.
const adminBit = 1 << 21

// threadSpaces are the namespaces that a single thread can enter.
var threadSpaces = []string{"net", "ipc", "uts", "cgroup", "mnt"}

// gatherThreads looks for threads that have something apart from their process's first one.
func (p *Process) gatherThreads() {
	if p.Threads < 2 {
		return
	}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil || tid == p.PID {
			continue
		}
		t := Thread{TID: tid}
		n, ok := kcmp(p.PID, tid, kcmpFiles)
		t.Files = ok && n != 0
		if n, ok = kcmp(p.PID, tid, kcmpPlaces); ok && n != 0 {
			t.Places = true
			t.Elsewhere = places(p.PID, p.PID) != places(p.PID, tid)
		}
		if p.Admin {
			t.Space = p.otherSpace(tid)
		}
		if t.Files || t.Places || t.Space != "" {
			p.Apart = append(p.Apart, t.named(p.PID))
		}
	}
}

// places are a thread's working directory, its root and its umask.
func places(pid, tid int) string {
	at := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	cwd, _ := os.Readlink(at + "cwd")
	root, _ := os.Readlink(at + "root")
	status, _ := os.ReadFile(at + "status")
	_, mask, _ := strings.Cut(string(status), "\nUmask:")
	mask, _, _ = strings.Cut(mask, "\n")
	return cwd + "\n" + root + mask
}

// otherSpace gives the kind of a namespace that a thread is in and its process isn't.
func (p *Process) otherSpace(tid int) string {
	for _, kind := range threadSpaces {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/task/%d/ns/%s", p.PID, tid, kind))
		if err == nil && link != p.Spaces[kind] {
			return kind
		}
	}
	return ""
}

// named adds a thread's name and its number in the session.
func (t Thread) named(pid int) Thread {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, t.TID))
	t.Inside = t.TID
	for line := range strings.Lines(string(status)) {
		key, rest, _ := strings.Cut(line, ":")
		switch key {
		case "Name":
			t.Name = strings.TrimSpace(rest)
		case "NSpid":
			fields := strings.Fields(rest)
			t.Inside, _ = strconv.Atoi(fields[len(fields)-1])
		}
	}
	return t
}

// gatherShared looks for processes that share what each process has for itself, unless it was
// made by clone to share it.
func gatherShared(f *Facts) {
	var all []*Process
	for i := range f.Processes {
		if f.Processes[i].State != 'Z' {
			all = append(all, &f.Processes[i])
		}
	}
	for _, kind := range []int{kcmpMemory, kcmpPlaces, kcmpSignals, kcmpFiles} {
		slices.SortFunc(all, func(a, b *Process) int {
			n, ok := kcmp(a.PID, b.PID, kind)
			if !ok { // one has ended
				return a.PID - b.PID
			}
			return [...]int{0, -1, 1, 0}[n&3]
		})
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if n, ok := kcmp(a.PID, b.PID, kind); ok && n == 0 && a.PID != b.PID {
				f.Shared = append(f.Shared, Shared{Kind: kind, A: a.PID, B: b.PID})
			}
		}
	}
}
