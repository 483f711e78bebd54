package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shownFlags are the flags of a mapping that are compared, as smaps has them. Mere hints, and
// what follows from other flags, aren't.
var shownFlags = []string{"lo", "gd", "dc", "dd", "wf", "hg", "nh", "mg", "sl"}

// NoteFlags adds the flags of mappings of the processes with these pids within the session. That
// takes longer than all else, so that callers name those in which there is one out of the
// ordinary. The processes must stand still as they did.
func (inv *Inventory) NoteFlags(pids map[int]bool) {
	read := newReader()
	for _, p := range inv.all {
		if pids[p.Inner] {
			inv.noteFlags(p.Inner, read(p.PID, "smaps"))
		}
	}
}

func (inv *Inventory) noteFlags(pid int, smaps string) {
	var in Object // the mapping that was met last, of those noted, which join neighbours
	var last, now flaggedMemory
	flush := func() {
		if last.flags != "" {
			inv.objects[in] = append(inv.objects[in], fact{aspectFlags, last.String()})
		}
		last = flaggedMemory{}
	}
	for line := range strings.Lines(smaps) {
		if m, ok := parseMapping(line); ok {
			now = flaggedMemory{start: m.start, end: m.end}
			continue
		}
		rest, ok := strings.CutPrefix(line, "VmFlags:")
		if !ok {
			continue
		}
		now.flags = shown(rest)
		o := Object{pid, "mapping " + strconv.FormatUint(now.start, 16)}
		begins := inv.objects[o] != nil
		if !begins && last.end == now.start && last.flags == now.flags {
			last.end = now.end
			continue
		}
		flush()
		if begins {
			in = o
		}
		last = now
	}
	flush()
}

// flaggedMemory is memory that has the same flags from its start to its end.
type flaggedMemory struct {
	start, end uint64
	flags      string
}

func (m flaggedMemory) String() string {
	return fmt.Sprintf("%s from %x to %x", m.flags, m.start, m.end)
}

// shown gives of a line of flags those that are compared.
func shown(line string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(line), func(f string) bool { return !slices.Contains(shownFlags, f) }), " ")
}
