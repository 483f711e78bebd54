package shim

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/tree"
)

// margin is what a capture in memory leaves free, in bytes: for the image's
// writer, and for what the machine does meanwhile.
const margin = 256 << 20

// small is the size below which a stream gains nothing, in bytes.
const small = 64 << 20

// Plan decides the way of an image: the one that is forced; else, if need bytes fit into
// free and leave a margin, memory for a small image and a buffer for others; else a
// stream. limit is how much memory the image may take, 0 for no limit of its own; why is
// for a person.
func Plan(forced driver.Way, need, free int64) (way driver.Way, limit int64, why string) {
	room := max(free-margin, 0)
	switch forced {
	case driver.WayMemory, driver.WayStream:
		return forced, 0, "it was chosen by hand"
	case driver.WayBuffered:
		return forced, room, "it was chosen by hand"
	case "":
		return driver.WayMemory, 0, "the worker is of a version that knows no other way"
	}
	told := fmt.Sprintf("the image takes up to %d MiB, %d MiB are free and %d of them are kept so", need>>20, free>>20, int64(margin)>>20)
	if need > room {
		return driver.WayStream, 0, "there is no room for it in memory: " + told
	}
	if need > small {
		return driver.WayBuffered, room, "there is room in memory for what isn't stored yet: " + told
	}
	return driver.WayMemory, room, "there is room for it in memory: " + told
}

// way decides how this session is captured.
func (d *dumper) way(o Order) (way driver.Way, limit int64, why string, err error) {
	free, err := Free(d.beside, o.Room)
	if err != nil {
		return "", 0, "", err
	}
	pids, err := d.tree.pids()
	if err != nil {
		return "", 0, "", err
	}
	need, err := tree.Dumpable(pids)
	if err != nil {
		return "", 0, "", err
	}
	files, err := memoryFiles(d.tree.init)
	if err != nil {
		return "", 0, "", err
	}
	way, limit, why = Plan(o.Way, need+files, free-o.Promised)
	return way, limit, why, nil
}

// memoryFiles is what the files of the session's memory file systems take, in
// bytes.
func memoryFiles(init int) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", init))
	if err != nil {
		return 0, fmt.Errorf("find the session's mounts: %w", err)
	}
	defer f.Close()
	seen := make(map[string]bool)
	var sum int64
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		head, tail, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(head)
		if !strings.HasPrefix(tail, "tmpfs ") || len(fields) < 5 || seen[fields[2]] {
			continue
		}
		seen[fields[2]] = true // one file system may be mounted several times
		var fs unix.Statfs_t
		if unix.Statfs(fmt.Sprintf("/proc/%d/root%s", init, fields[4]), &fs) == nil {
			sum += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		}
	}
	return sum, lines.Err()
}

// Free is how much memory processes of a group can take before this machine or
// a limit of the group runs out of it, in bytes: as much as leaves room, if that
// isn't 0.
func Free(group *cgroup.Group, room int64) (int64, error) {
	if room > 0 {
		return room + margin, nil
	}
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read how much memory is free: %w", err)
	}
	free := int64(math.MaxInt64)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read how much memory is free: %w", err)
			}
			free = n << 10
		}
	}
	room, limited, err := group.Room()
	if limited {
		free = min(free, room)
	}
	return free, err
}

// held is how much memory the scratch directory takes, in bytes.
func (p place) held() int64 {
	var fs unix.Statfs_t
	if unix.Statfs(p.scratch(), &fs) != nil {
		return 0
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize
}

// full reports whether the scratch directory takes all that it may.
func (p place) full() bool {
	var fs unix.Statfs_t
	return unix.Statfs(p.scratch(), &fs) == nil && fs.Bfree < nearlyFull
}

// nearlyFull is when a write of criu's found no room, in blocks.
const nearlyFull = 16

// widen takes the bound off the scratch directory: a stream puts little there.
func (p place) widen() error {
	if err := unix.Mount("", p.scratch(), "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=100%"); err != nil {
		return fmt.Errorf("widen the scratch memory: %w", err)
	}
	return nil
}
