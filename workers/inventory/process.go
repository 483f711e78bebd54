package inventory

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// process notes all of one process.
func (c *collector) process(l *look) error {
	pid, o := l.PID, Object{PID: l.Inner}
	l.stat = c.read(pid, "stat")
	stat := statFields(l.stat)
	if stat == nil {
		return errors.New("it is gone")
	}
	c.pid, c.program = o.PID, comm(l.stat)
	if stat[0] == "Z" || stat[0] == "X" {
		c.note(o, "state", "ended")
		c.note(o, "exit status", stat[49])
		c.note(o, "session and group", innerIDs(l.status))
		return nil
	}
	c.note(o, "session and group", innerIDs(l.status))
	device, _ := strconv.ParseUint(stat[4], 10, 32)
	c.note(o, "controlling terminal", terminal(device))
	c.note(o, "parent", c.parent(stat[1]))
	c.noteStatus(o, l.status)
	c.note(o, "nice and policy", scheduling(stat))
	for _, f := range []struct{ aspect, file string }{
		{"limits", "limits"}, {"personality", "personality"}, {"oom score", "oom_score_adj"}, {"dump filter", "coredump_filter"},
	} {
		c.note(o, f.aspect, strings.TrimSpace(c.read(pid, f.file)))
	}
	for _, l := range []struct{ aspect, link string }{{"working directory", "cwd"}, {"root directory", "root"}, {"program", "exe"}} {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, l.link))
		if err != nil {
			to = "" // of a thread of the kernel's there is none
		}
		c.note(o, l.aspect, to)
	}
	var root unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/root", pid), &root) == nil {
		l.root = root.Dev
	}
	c.note(o, "arguments", strconv.Itoa(argumentsSize(stat)))
	c.timers(o, pid)
	if err := c.threads(l); err != nil {
		return err
	}
	c.mappings(l)
	return c.files(l)
}

// comm gives the name in /proc/PID/stat: "77 (name) S …".
func comm(stat string) string {
	from, to := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if from < 0 || to < from {
		return ""
	}
	return strings.TrimSpace(stat[from+1 : to])
}

// statFields gives /proc/PID/stat from the state on.
func statFields(s string) []string {
	at := strings.LastIndexByte(s, ')')
	if at < 0 {
		return nil
	}
	f := strings.Fields(s[at+1:])
	if len(f) < 50 {
		return nil
	}
	return f
}

func innerIDs(status string) string {
	return fmt.Sprintf("%d %d", innermost(status, "NSsid:"), innermost(status, "NSpgid:"))
}

func (c *collector) parent(field string) string {
	n, _ := strconv.Atoi(field)
	return strconv.Itoa(c.inner[n]) // 0 outside
}

// terminal gives the name of a terminal by its device number.
func terminal(dev uint64) string {
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	const first, last, each = 136, 143, 256 // major numbers of pseudo terminals
	switch {
	case dev == 0:
		return "none"
	case major >= first && major <= last:
		return fmt.Sprintf("/dev/pts/%d", (major-first)*each+minor)
	}
	return fmt.Sprintf("%d:%d", major, minor)
}

// scheduling is nice, real-time priority and policy.
func scheduling(stat []string) string { return stat[16] + " " + stat[37] + " " + stat[38] }

// argumentsSize is what the kernel knows of where the arguments are.
func argumentsSize(stat []string) int {
	from, _ := strconv.ParseUint(stat[45], 10, 64)
	to, _ := strconv.ParseUint(stat[46], 10, 64)
	return int(to - from)
}

// The lines of a status file that are noted, by aspect; of threads those of ofThread alone.
var (
	ofProcess = []struct{ line, aspect string }{
		{"Umask:", "umask"}, {"ShdPnd:", aspectPending}, {"SigIgn:", "ignored signals"}, {"SigCgt:", "handled signals"},
	}
	ofThread = []struct{ line, aspect string }{
		{"Name:", "name"}, {"Uid:", "users"}, {"Gid:", "groups"}, {"Groups:", "groups"}, {"SigPnd:", aspectPending}, {"SigBlk:", "blocked signals"},
		{"CapInh:", "capabilities"}, {"CapPrm:", "capabilities"}, {"CapEff:", "capabilities"}, {"CapBnd:", "capabilities"}, {"CapAmb:", "capabilities"},
		{"NoNewPrivs:", "no new privileges"}, {"Seccomp:", "seccomp"}, {"Seccomp_filters:", "seccomp"}, {"Cpus_allowed:", "CPU affinity"},
	}
)

func (c *collector) noteStatus(o Object, status string) {
	for _, l := range ofProcess {
		c.note(o, l.aspect, statusOf(status, l.line))
	}
}

func (c *collector) threads(l *look) error {
	pid := l.PID
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		status, stat := l.status, l.stat // of the first thread they are the process's
		if t.Name() != strconv.Itoa(pid) {
			status, stat = c.read(pid, "task/"+t.Name()+"/status"), c.read(pid, "task/"+t.Name()+"/stat")
		}
		ids := strings.Fields(statusOf(status, "NSpid:"))
		if len(ids) == 0 {
			continue
		}
		o := Object{c.inner[pid], "thread " + ids[len(ids)-1]}
		joined := map[string]string{}
		for _, l := range ofThread {
			joined[l.aspect] += " " + statusOf(status, l.line)
		}
		for _, l := range ofThread {
			if v, ok := joined[l.aspect]; ok {
				if l.aspect == "blocked signals" && c.masked(pid, t.Name()) {
					v = unknown
				}
				c.note(o, l.aspect, strings.TrimSpace(v))
				delete(joined, l.aspect)
			}
		}
		if f := statFields(stat); f != nil {
			c.note(o, "nice and policy", scheduling(f))
		}
		tid, _ := strconv.Atoi(t.Name())
		c.note(o, "signal stack and futexes", robustList(tid))
	}
	return nil
}

// masked reports whether a thread is in a system call that blocks other signals as long as it
// waits. It makes the call again after a restore.
func (c *collector) masked(pid int, task string) bool {
	number, _, _ := strings.Cut(c.read(pid, "task/"+task+"/syscall"), " ")
	n, err := strconv.Atoi(number)
	return err == nil && slices.Contains([]int{
		unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_PSELECT6, unix.SYS_PPOLL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_IO_PGETEVENTS,
	}, n)
}

// robustList says where a thread has its list of robust futexes.
func robustList(tid int) string {
	var head uintptr
	var size uintptr
	_, _, errno := unix.Syscall(unix.SYS_GET_ROBUST_LIST, uintptr(tid), uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return ""
	}
	return fmt.Sprintf("%x", head)
}

// timers notes a process's POSIX timers; what is left of their time isn't shown.
func (c *collector) timers(o Object, pid int) {
	id := ""
	for line := range strings.Lines(c.read(pid, "timers")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "ID":
			id = value
		case "signal":
			value, _, _ = strings.Cut(value, "/") // the value that comes with it is a pointer or a number
			c.note(Object{o.PID, "timer " + id}, "signal", value)
		case "notify":
			kind, _, _ := strings.Cut(value, "/") // whom, by a pid outside
			c.note(Object{o.PID, "timer " + id}, "notify", kind)
		case "ClockID":
			c.note(Object{o.PID, "timer " + id}, "clock", value)
		}
	}
}
