package inventory

import "github.com/diapause/diapause/workers/tree"

// Process is one process of an inventory, also one that has ended and wasn't waited for.
// One that has ended has neither mappings nor files.
type Process struct {
	PID      int       // as the caller of Take sees it
	Inner    int       // within the session
	Mappings []Mapping // that have a name, by address
	Writable []tree.FD // files with a path that are open for writing, by number
}

// Mapping is one line of /proc/PID/maps.
type Mapping struct {
	Start, End uint64
	Shared     bool
	Path       string // "/usr/lib/libc.so.6", "/tmp/gone (deleted)", "[vdso]"
}

// Processes lists the processes by their pids within the session. The list is the inventory's
// own: don't change it.
func (inv *Inventory) Processes() []Process { return inv.all }
