package inventory

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/tree"
)

// watchKey is a watch of inotify: the descriptor, and the watch's number there.
type watchKey struct {
	descriptor Object
	number     string
}

// watched is what the kernel says of a watch: the inode, and who has it.
type watched struct {
	pid  int // as the caller of Take sees it
	file uint64
}

// NoteWatched notes of which files the watches are whose paths are known. The processes must
// stand still as they did.
func (inv *Inventory) NoteWatched(watches []tree.Watch) {
	inner := map[int]int{}
	for _, p := range inv.all {
		inner[p.PID] = p.Inner
	}
	for _, w := range watches {
		if w.Path != "" && w.Number != "" {
			inv.noteWatched(watchKey{Object{inner[w.PID], "fd " + strconv.Itoa(w.Num)}, w.Number}, w.Path)
		}
	}
}

// NoteWatchedAs notes of a copy whether its watches are of the files at the same paths as those of before.
func (inv *Inventory) NoteWatchedAs(before *Inventory) {
	for key, path := range before.paths {
		inv.noteWatched(key, path)
	}
}

func (inv *Inventory) noteWatched(key watchKey, path string) {
	w, ok := inv.watched[key]
	if !ok { // its absence is a difference of its own
		return
	}
	is := "another file"
	var st unix.Stat_t
	if unix.Lstat(fmt.Sprintf("/proc/%d/root%s", w.pid, path), &st) == nil && st.Ino == w.file {
		is = path
	}
	inv.paths[key] = path
	inv.objects[key.descriptor] = append(inv.objects[key.descriptor], fact{aspectWatched + " " + key.number, is})
}
