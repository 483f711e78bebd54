package preflight

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

const mendFix = "have a CRIU with Diapause's patches (workers/criu/install/build.sh)"

// lacks reports whether the CRIU at hand is without one of our patches.
func (j *judge) lacks(patch string) bool { return slices.Contains(j.Lacks, patch) }

// withoutMend blocks what the CRIU at hand can't bring back.
func (j *judge) withoutMend(p *Process, f *File, is, why string) {
	j.block(p, what(f, is), "without a patch CRIU "+why, mendFix)
}

// mends names what of a process needs patches that the CRIU at hand hasn't.
func (j *judge) mends(p *Process) {
	if j.lacks("subreaper") && j.orphan(p) {
		j.block(p, "its session's leader has ended", "without a patch CRIU can't bring back a process below a subreaper whose session's leader has ended", mendFix)
	}
	if j.lacks("terminal") && p.Terminal && p.Session != p.Inside {
		j.warn(p, schemas.WarnNotKept, fmt.Sprintf("%s (pid %d)", p.Comm, p.Inside), "its controlling terminal is lost: this CRIU lacks a patch")
	}
	if init := j.processes[j.Init]; j.lacks("affinity") && init != nil && p.CPUs != init.CPUs {
		j.warn(p, schemas.WarnNotKept, fmt.Sprintf("%s (pid %d)", p.Comm, p.Inside), "it runs on any CPU after a resume: this CRIU lacks a patch")
	}
}

// orphan reports whether the leader of a process's session has ended, and another
// process than the first one of all has become its parent.
func (j *judge) orphan(p *Process) bool {
	if p.Session == p.Inside || p.Session == 0 {
		return false
	}
	for _, other := range j.processes {
		if other.Inside == p.Session {
			return false
		}
	}
	parent := j.processes[p.Parent]
	return parent != nil && parent.PID != j.Init && parent.Session != p.Session
}

// timer judges a timerfd.
func (j *judge) timer(p *Process, f *File) {
	t := f.Timer
	switch {
	case !j.lacks("timerfd") || t.Running:
	case t.Periodic && t.Ticks > 0:
		j.withoutMend(p, f, "timerfd that expired unread", "stops such a timer, and the program would wait for ever")
	case t.Absolute && t.Ticks == 0:
		j.lost(p, f, "a timer that isn't armed expires at a resume: this CRIU lacks a patch")
	}
}

// unsent judges what a TCP socket has still to send to another one of the session. A
// connection to the outside is closed, with all that is in it.
func (j *judge) unsent(p *Process, f *File) {
	if !j.lacks("tcp-unsent") || f.Socket.Unsent == 0 {
		return
	}
	for _, c := range j.Connections {
		if c.Inside && c.Local == f.Socket.Local {
			j.withoutMend(p, f, "TCP socket with data that isn't sent yet", "can't bring that back")
			return
		}
	}
}

// unseen are the patches for what can't be seen from outside a process.
var unseen = map[string]string{
	"sockopts":          "most options of sockets",
	"attributes":        "I/O priorities, timer slack, personality and what core dumps hold",
	"memory":            "seals of mappings, and memory that is locked as it is touched or mapped",
	"restart":           "calls with a time limit, which fail with EINTR",
	"sleep":             "sleeps in what goes on after a checkpoint or fork, which end early",
	"posix-locks":       "fcntl locks of files that are also mapped",
	"terminal-input":    "unfinished lines and stopped output of terminals that programs have made",
	"empty-packets":     "what follows an empty packet in the queue of a unix socket",
	"stream-copies":     "the first code of programs that are suspended as they start, if they are streamed",
	"protection-keys":   "the protection keys of memory, as Chromium has them",
	"terminal-flags":    "flags of open files of the terminal",
	"remap-path":        "files whose names others have got, open in several processes",
	"interrupted-calls": "that a signal which comes meanwhile interrupts what a process waits for",
	"reserved":          "mappings larger than this host's memory, with which a session can't be resumed",
}

// invisible warns once of what this CRIU doesn't bring back and preflight can't see.
func (j *judge) invisible() {
	var all []string
	for _, patch := range j.Lacks {
		if is, ok := unseen[patch]; ok {
			all = append(all, is)
		}
	}
	if len(all) > 0 {
		j.warnings = append(j.warnings, schemas.Warning{Code: schemas.WarnNotKept, Subject: "CRIU without patches",
			Text: "this CRIU lacks patches, and where the session uses them it doesn't keep " + strings.Join(all, "; ")})
	}
}

// SubjectPeer is the subject of the warning of unix sockets that name another process as their peer.
const SubjectPeer = "SO_PEERCRED"

// peers warns once of unix sockets that name another process as their peer.
func (j *judge) peers() {
	many := map[uint64]bool{}
	for _, p := range j.Processes {
		for _, f := range p.Files {
			if s := f.Socket; s != nil && s.PeerPID > 0 && j.Unix[s.Inode].State == unixEstablished { // its other end may be closed
				many[s.Inode] = true
			}
		}
	}
	for _, p := range j.Processes {
		for _, f := range p.Files {
			if s := f.Socket; s != nil && s.PeerPID == p.PID {
				delete(many, s.Inode)
			}
		}
	}
	if len(many) > 0 {
		j.warnings = append(j.warnings, schemas.Warning{Code: schemas.WarnNotKept, Subject: SubjectPeer,
			Text: fmt.Sprintf("%d unix sockets say by SO_PEERCRED that another process made their other end: that isn't kept", len(many))})
	}
}

// watch judges a watch by what a CRIU without patches makes of it.
func (j *judge) watch(p *Process, what string, symlink bool, mask uint64) {
	switch {
	case !j.lacks("inotify"):
	case symlink:
		j.block(p, what+" of a symbolic link", "without a patch CRIU watches what the link points to", mendFix)
	case mask&(unix.IN_ONESHOT|unix.IN_EXCL_UNLINK) != 0:
		j.warn(p, schemas.WarnNotKept, fmt.Sprintf("%s (pid %d)", p.Comm, p.Inside), "%s: it loses IN_ONESHOT and IN_EXCL_UNLINK: this CRIU lacks a patch", what)
	}
}
