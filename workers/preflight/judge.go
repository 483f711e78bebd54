package preflight

import (
	"fmt"
	"strings"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"golang.org/x/sys/unix"
)

// Judge says what of the facts stops a capture, in the order of processes and
// their files, and what doesn't but should be known: what will be lost, and what
// may stop it for a moment. It reads nothing but f.
func Judge(f Facts) ([]driver.Blocker, []schemas.Warning) {
	findings, warnings := judgeAll(f)
	return blockers(findings), warnings
}

// finding is a blocker with what it depends on.
type finding struct {
	driver.Blocker
	pair string // if it may be one for a moment, as its other end wasn't seen or reads soon: what it is an end of
}

// blockers names what several processes have inherited once.
func blockers(findings []finding) []driver.Blocker {
	var all []driver.Blocker
	named := map[string]bool{"": false}
	for _, f := range findings {
		if !named[f.pair] {
			all = append(all, f.Blocker)
		}
		named[f.pair] = f.pair != ""
	}
	return all
}

func judgeAll(f Facts) ([]finding, []schemas.Warning) {
	j := judge{Facts: f, held: holders(f), processes: map[int]*Process{}}
	for i := range f.Processes {
		j.processes[f.Processes[i].PID] = &f.Processes[i]
	}
	for i := range f.Processes {
		j.process(&f.Processes[i])
	}
	j.watches()
	j.connections()
	j.invisible()
	j.peers()
	sharing(&j)
	j.warnings = append(j.warnings, f.SystemV.warnings()...)
	j.warnings = append(j.warnings, keyWarnings(f)...)
	j.warnings = append(j.warnings, confined(f)...)
	return j.findings, j.warnings
}

type judge struct {
	Facts
	held      held
	processes map[int]*Process
	findings  []finding
	warnings  []schemas.Warning
}

// held is what the tree itself has hold of, by inode or number.
type held struct {
	sockets map[uint64]bool
	readers map[string]bool // by link of the pipe
	writers map[string]bool
	masters map[terminal]bool
	pids    map[int]bool
	passing bool // some descriptors wait in the queues of unix sockets, where no process holds them
}

// terminal is a pseudo-terminal: its number counts within one devpts.
type terminal struct {
	device uint64
	number int
}

func holders(f Facts) held {
	h := held{map[uint64]bool{}, map[string]bool{}, map[string]bool{}, map[terminal]bool{}, map[int]bool{}, false}
	for _, p := range f.Processes {
		h.pids[p.PID] = true
		for _, file := range p.Files {
			mode := file.Flags & unix.O_ACCMODE
			h.passing = h.passing || file.Passing > 0
			switch {
			case file.Socket != nil:
				h.sockets[file.Socket.Inode] = true
			case file.Type == unix.S_IFIFO:
				h.readers[file.Link] = h.readers[file.Link] || mode != unix.O_WRONLY
				h.writers[file.Link] = h.writers[file.Link] || mode != unix.O_RDONLY
			case file.TTY >= 0:
				h.masters[terminal{file.Device, file.TTY}] = true
			}
		}
	}
	return h
}

// block notes a blocker of a process.
func (j *judge) block(p *Process, what, why, fix string) {
	j.findings = append(j.findings, finding{Blocker: driver.Blocker{PID: p.Inside, Program: p.Comm, What: what, Why: why, Fix: fix}})
}

// blockPair notes a blocker of a file whose other end wasn't seen in the tree, or hasn't done
// yet what it may do at any time.
func (j *judge) blockPair(p *Process, f *File, is, why, fix string) {
	j.findings = append(j.findings, finding{
		Blocker: driver.Blocker{PID: p.Inside, Program: p.Comm, What: what(f, is), Why: why, Fix: fix}, pair: f.pair(),
	})
}

// warn notes what is known of a process and stops nothing.
func (j *judge) warn(p *Process, code schemas.WarningCode, subject, format string, args ...any) {
	text := fmt.Sprintf("%s (pid %d): ", p.Comm, p.Inside) + fmt.Sprintf(format, args...)
	j.warnings = append(j.warnings, schemas.Warning{Code: code, Subject: subject, Text: text})
}

// fd names an open file of a process, as the subject of a warning.
func fd(p *Process, f *File) string {
	return fmt.Sprintf("%s (pid %d), fd %d", p.Comm, p.Inside, f.Num)
}

func (j *judge) process(p *Process) {
	if p.Tracer != "" {
		j.block(p, "traced by "+p.Tracer, "a process has one tracer at a time, and a capture traces it", "end the debugger or strace, or let it detach")
	}
	if p.State == 'Z' {
		if p.Threads > 1 {
			j.block(p, "its first thread has ended, others run", "CRIU can't capture a process in that state", "let the program end as a whole, or end it")
		}
		return
	}
	if !p.Limits {
		j.block(p, fmt.Sprintf("it runs as user %d", p.User),
			"the worker has no CAP_SYS_RESOURCE here, and without it can't read the limits of another user's process",
			"give the worker that capability, or run the session as root")
	}
	if p.Root != "/" && p.Inside == 1 {
		j.block(p, "its root is "+p.Root, "CRIU can't capture a tree whose first process has called chroot", "start the session with that directory as its root")
	}
	j.namespaces(p)
	j.mends(p)
	threads(j, p)
	if p.Policy != "" {
		j.warn(p, schemas.WarnNotKept, fmt.Sprintf("%s (pid %d)", p.Comm, p.Inside), "its policy of memory (%s, by mbind or set_mempolicy) isn't kept", p.Policy)
	}
	if p.Nice != 0 {
		j.warn(p, schemas.WarnNotKept, fmt.Sprintf("%s (pid %d)", p.Comm, p.Inside), "the nice value %d of its session's group (/proc/PID/autogroup) isn't kept", p.Nice)
	}
	if p.Full {
		j.block(p, "its address space is at its limit", "CRIU needs some of it for a moment to capture a process", "raise its limit (ulimit -v, RLIMIT_AS)")
	}
	if p.Crowded {
		j.block(p, "it has as many open files as it may", "CRIU needs some descriptors for a moment to capture a process", "raise its limit (ulimit -n, RLIMIT_NOFILE)")
	}
	if p.Clocks > 0 {
		j.warn(p, schemas.WarnNotKept, fmt.Sprintf("%s (pid %d)", p.Comm, p.Inside),
			"of its %d timers of the wall clock, those set for a time of day expire later by the time of the suspend", p.Clocks)
	}
	for i := range p.Files {
		j.file(p, &p.Files[i])
	}
	for i := range p.Mappings {
		j.mapping(p, &p.Mappings[i])
	}
}

// namespaces names those that aren't the session's. A mount namespace of its
// own is captured.
func (j *judge) namespaces(p *Process) {
	for _, kind := range spaces {
		own, session := p.Spaces[kind], j.Spaces[kind]
		if kind == "mnt" || own == session {
			continue
		}
		j.block(p, "it is in a "+kind+" namespace of its own ("+own+")",
			"CRIU can't bring a nested "+kind+" namespace back", sandboxFix)
	}
}

const sandboxFix = "start the program without its own sandbox or container (unshare, bwrap, a browser's sandbox)"

// watches names what is watched and couldn't be found again.
func (j *judge) watches() {
	for _, w := range j.Watches {
		p := j.processes[w.PID]
		if p == nil {
			continue
		}
		what := fmt.Sprintf("fd %d: %s", w.Num, strings.Trim(strings.TrimPrefix(w.Link, "anon_inode:"), "[]"))
		switch {
		case w.Whole:
			j.block(p, what+" of a whole file system", "CRIU forgets such a watch, and the program would wait for ever", "let it watch a mount or directories instead")
		case w.Named && w.Path == "":
			j.block(p, what+" of a file "+onKind(w.Kind), "its path can't be found any more, and the file system gives no other way to it",
				"let the program watch a directory below its working directory instead, or stop watching")
		default:
			j.watch(p, what, w.Symlink, w.Mask)
		}
	}
}

func onKind(kind string) string {
	if kind == "" {
		return "on no file system of the session"
	}
	return "on " + kind
}

// connections warns of those that don't survive. Both ends of what stays inside
// are captured.
func (j *judge) connections() {
	for _, c := range j.Connections {
		p := j.processes[c.PID]
		switch {
		case p == nil:
		case c.Pending:
			j.warn(p, schemas.WarnConnection, c.String(), "the connection %s isn't accepted yet: it will be reset", c)
		case !c.Inside:
			j.warn(p, schemas.WarnConnection, c.String(), "the connection %s will be closed", c)
		}
	}
}
