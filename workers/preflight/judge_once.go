package preflight

import (
	"fmt"
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
	return all
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
	const enough = 4
	if more := len(all) - enough; more > 0 {
		all = append(all[:enough], fmt.Sprintf("%d more", more))
	}
	return []schemas.Warning{once("Landlock", "%s can't gain privileges: if that is for Landlock, its rules don't hold after a resume", strings.Join(all, ", "))}
}
