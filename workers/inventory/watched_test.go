package inventory

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/tree"
)

// TestWatched has watches that a copy has of the same file, and of another of the same number.
func TestWatched(t *testing.T) {
	t.Parallel()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	defer f.Close()
	dir := t.TempDir()
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	watches, err := tree.Watches(t.Context(), []int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	compared := func(copied string) []Difference {
		before, after := taken(t), taken(t)
		for i := range watches {
			watches[i].Path = dir
		}
		before.NoteWatched(watches)
		for key := range before.paths {
			before.paths[key] = copied
		}
		after.NoteWatchedAs(before)
		if len(before.paths) != 1 {
			t.Fatalf("noted are %v of %v", before.paths, watches)
		}
		var of []Difference
		for _, d := range Compare(before, after, true) {
			if d.Thing == "fd "+strconv.Itoa(fd) {
				of = append(of, d)
			}
		}
		return of
	}
	if got := compared(dir); len(got) > 0 {
		t.Errorf("two lists of one watch differ: %v", got)
	}
	if got := compared(filepath.Dir(dir)); len(got) != 1 || got[0].After != "another file" || got[0].Class != Warn {
		t.Errorf("of a watch of another file it says %v", got)
	}
}

// taken lists what this process has.
func taken(t *testing.T) *Inventory {
	t.Helper()
	inv, err := Take([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// TestMarks has a group of fanotify that is marked for something else, and one that has no mark.
func TestMarks(t *testing.T) {
	t.Parallel()
	fd, err := unix.FanotifyInit(unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "fanotify")
	defer f.Close()
	dir := t.TempDir()
	mark := func(flags uint, mask uint64) {
		if err := unix.FanotifyMark(fd, flags, mask, unix.AT_FDCWD, dir); err != nil {
			t.Fatal(err)
		}
	}
	differs := func(before, after *Inventory) (all []Difference) {
		for _, d := range Compare(before, after, true) {
			if d.Thing == "fd "+strconv.Itoa(fd) {
				all = append(all, d)
			}
		}
		return all
	}
	none := taken(t)
	mark(unix.FAN_MARK_ADD, unix.FAN_OPEN)
	opened := taken(t)
	mark(unix.FAN_MARK_ADD, unix.FAN_CLOSE_WRITE)
	both := taken(t)
	for _, changed := range [][2]*Inventory{{opened, none}, {opened, both}} {
		if got := differs(changed[0], changed[1]); len(got) != 1 || got[0].Aspect != "marks" || got[0].Class != Refuse {
			t.Errorf("of other marks it says %v", got)
		}
	}
	if got := differs(both, taken(t)); len(got) > 0 {
		t.Errorf("two lists of the same marks differ: %v", got)
	}
}
