package adopted

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/diapause/diapause/workers/driver"
)

// Plan says what adopting a tree means.
type Plan struct {
	PID     int    `json:"pid"`
	Program string `json:"program"` // its command line
	Comm    string `json:"-"`       // the name of its program
	Start   uint64 `json:"-"`       // by which it is known again
	User    uint32 `json:"user"`
	Pids    []int  `json:"pids"` // of the tree

	// Refused says why it can't be a session; it can if there is nothing.
	Refused []driver.Blocker `json:"refused,omitempty"`
	// Lost says what will be otherwise when it was suspended and resumed, and what it isn't
	// protected from: a sentence each.
	Lost []string `json:"lost,omitempty"`
}

// Judge says what adopting a tree means. It reads nothing but f.
func Judge(f Facts) Plan {
	p := Plan{PID: f.Root.PID, Program: f.Program, Comm: f.Root.Comm, Start: f.Root.Start, User: f.Root.User}
	if p.Program == "" {
		p.Program = f.Root.Comm
	}
	for _, t := range f.Tree {
		p.Pids = append(p.Pids, t.PID)
	}
	if why, fix := wrongKind(f.Root); why != "" {
		p.Refused = []driver.Blocker{blocker(f.Root, "the process itself", why, fix)}
		return p // nothing else of it matters
	}
	for _, t := range f.Tree {
		p.Refused = append(p.Refused, refusedOf(f, t)...)
	}
	p.Refused = append(p.Refused, f.Blockers...)
	if len(p.Refused) == 0 {
		p.Lost = lost(f)
	}
	return p
}

func blocker(p Process, what, why, fix string) driver.Blocker {
	return driver.Blocker{PID: p.PID, Program: p.Comm, What: what, Why: why, Fix: fix}
}

// wrongKind says why a process can't be the first one of any session.
func wrongKind(p Process) (why, fix string) {
	switch {
	case p.PID == 1:
		return "it is the machine's first process", "name a program that it has started"
	case p.Kernel:
		return "it is a thread of the kernel", "name a program"
	case p.State == 'Z' || p.State == 'X':
		return "it has ended, and its parent hasn't waited for it", "name a process that runs"
	}
	return "", ""
}

// refusedOf says what of one process of a tree can't be in a session.
func refusedOf(f Facts, p Process) (all []driver.Blocker) {
	refuse := func(what, why, fix string) { all = append(all, blocker(p, what, why, fix)) }
	switch {
	case p.State == 'Z' || p.State == 'X':
		return nil // it has nothing but its number
	case slices.Contains(f.Asking, p.PID) || p.Diapause:
		refuse("a process of Diapause", "Diapause can't suspend itself, nor the command that asks for it", "name a process below it")
		return all
	case ofSession(p):
		refuse("a session's process", "it belongs to a session of Diapause already", "use that session: `diapause ls` lists them")
		return all
	}
	if own := foreign(f.Host, p); len(own) > 0 {
		refuse("namespaces of its own ("+strings.Join(own, ", ")+")", "it is in a container or a sandbox", "adopt the container (adopt --container), or start the program without a sandbox")
		return all
	}
	if p.Root != "/" {
		refuse("its root is "+p.Root, "it sees other files than the host's", "start the program without chroot")
	}
	if unit := serviceOf(p); unit != "" && p.PID == f.Root.PID {
		refuse("it is of the service "+unit, "systemd would take its suspend for its end, and may start it again", "stop the unit, and start the program by `diapause run`")
	}
	if p.PID == f.Root.PID && p.Terminal {
		refuse("it has a controlling terminal", "the program at the terminal's other end isn't part of it", "start it with setsid, its input and output in files")
	} else if !inTree(f, p.Session) || !inTree(f, p.Group) {
		refuse(fmt.Sprintf("session %d, process group %d", p.Session, p.Group), "the leader of one of them is outside of the tree", "start it with setsid")
	}
	if p.State == 'T' || p.State == 't' {
		refuse("it is stopped", "a stopped process can't be taken over", "let it go on (SIGCONT), or let the debugger detach")
	}
	return all
}

func inTree(f Facts, pid int) bool {
	return slices.ContainsFunc(f.Tree, func(p Process) bool { return p.PID == pid })
}

// foreign lists the kinds of namespaces that a process doesn't share with the host.
func foreign(host map[string]string, p Process) (kinds []string) {
	for _, kind := range slices.Sorted(maps.Keys(host)) {
		if p.Spaces[kind] != host[kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// ofSession reports whether a process is in a cgroup of a host of Diapause.
func ofSession(p Process) bool {
	return slices.ContainsFunc(p.Groups, func(path string) bool {
		_, below, is := strings.Cut(path+"/", "/diapause/")
		return is && strings.Count(below, "/") > 1
	})
}

// serviceOf gives the systemd service that a process belongs to; "" if none restarts it. What a
// person has started is below the service of that user's own manager.
func serviceOf(p Process) string {
	for _, path := range p.Groups {
		parts := strings.Split(path, "/")
		last := parts[len(parts)-1]
		if strings.HasSuffix(last, ".service") && !strings.HasPrefix(last, "user@") {
			return last
		}
	}
	return ""
}

// lost says what isn't as before after a resume, and what the tree isn't protected from.
func lost(f Facts) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	say("only this host can resume it, and only while its pids are free: %s", pidList(f.Tree))
	say("its files stay the host's: a snapshot has its memory alone, and a resume is refused if a file that it has open has another size by then")
	say("nothing isolates it: it keeps the host's network, processes, files and devices, and its rights, without a filter of system calls")
	say("its ports are free for others while it is suspended; its connections to the outside are closed")
	if f.Parent.PID > 1 {
		say("its parent %s (pid %d) is told that it was killed when it is suspended, and has no such child after a resume; its pid is free only when that parent has waited for it", f.Parent.Comm, f.Parent.PID)
	}
	say("the session ends when process %d ends; what is left of the tree is killed then, and all of it by `diapause rm` and `diapause kill`", f.Root.PID)
	say("it can't be forked, moved or made a template; attach, exec, cp, logs and forward don't work for it")
	for _, w := range f.Warnings {
		say("%s", w.Text)
	}
	return all
}

// listed is how many pids a sentence names.
const listed = 8

func pidList(tree []Process) string {
	var names []string
	for _, p := range tree {
		names = append(names, fmt.Sprint(p.PID))
	}
	if more := len(names) - listed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), more)
	}
	return strings.Join(names, ", ")
}
