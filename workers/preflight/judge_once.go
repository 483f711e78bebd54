package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// What is warned of once for a whole session.

func once(subject, format string, args ...any) schemas.Warning {
	return schemas.Warning{Code: schemas.WarnNotKept, Subject: subject, Text: fmt.Sprintf(format, args...)}
}

// warnings names what the kernel does at the end of a process, which isn't kept.
func (v SystemV) warnings() (all []schemas.Warning) {
	if v.Removed > 0 {
		all = append(all, once("System V shared memory", "segments of shared memory that were removed (%d) stay when their last user has ended", v.Removed))
	}
	if v.Sets > 0 {
		all = append(all, once("System V semaphores", "of semaphore sets (%d) what a process takes with SEM_UNDO before a suspend isn't given back when it ends", v.Sets))
	}
	if len(v.Queues) > 0 {
		all = append(all, once("POSIX message queues", "the POSIX message queues %s are lost, with the messages in them", few(v.Queues)))
	}
	return all
}

// keyWarnings warns of keys that processes may have in their keyrings: the kernel doesn't
// tell whose they are.
func keyWarnings(f Facts) (all []schemas.Warning) {
	for _, user := range slices.Sorted(maps.Keys(f.Keys)) {
		all = append(all, once("kernel keyrings", "user %d has %d keys in the kernel's keyrings: those of the session aren't kept", user, f.Keys[user]))
	}
	return all
}

// few lists names, and how many more there are.
func few(all []string) string {
	const enough = 4
	if more := len(all) - enough; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:enough], ", "), more)
	}
	return strings.Join(all, ", ")
}

// confined warns of processes that may have confined themselves by Landlock: the kernel shows
// no rules that hold for a process, and CRIU doesn't know of them. A session's
// processes can't do so without no_new_privs.
func confined(f Facts) []schemas.Warning {
	if slices.ContainsFunc(f.Processes, func(p Process) bool { return p.PID == f.Init && p.Confined }) {
		return nil
	}
	var all []string
	for _, p := range f.Processes {
		if p.Confined && p.State != 'Z' {
			all = append(all, fmt.Sprintf("%s (pid %d)", p.Comm, p.Inside))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []schemas.Warning{once("Landlock", "%s can't gain privileges: if that is for Landlock, its rules don't hold after a resume", few(all))}
}
