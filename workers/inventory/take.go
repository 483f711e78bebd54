package inventory

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Object is what an aspect is of: a process, or a thing that a process has.
type Object struct {
	PID   int    // within the session
	Thing string // "", "thread 12", "fd 7", "mapping 7f12a000"
}

func (o Object) String() string {
	if o.Thing == "" {
		return fmt.Sprintf("pid %d", o.PID)
	}
	return fmt.Sprintf("pid %d, %s", o.PID, o.Thing)
}

// Inventory is what the processes of one tree have, aspect by aspect.
type Inventory struct {
	programs map[int]string // names of the processes, by pid
	objects  map[Object]facts
	flows    map[string]flow // by the ends of connections within the tree
	devices  Devices
	all      []Process
}

// facts are the aspects of one object with their values, in the order in which they were noted.
type facts []fact

type fact struct{ aspect, value string }

func (f facts) of(aspect string) (string, bool) {
	for _, x := range f {
		if x.aspect == aspect {
			return x.value, true
		}
	}
	return "", false
}

// Take lists what the processes with these pids, as the caller sees them, have. They must
// stand still.
func Take(pids []int) (*Inventory, error) { return take(pids, newReader(), numbersOfRoot) }

// TakeCopy is Take of a copy that sees its files through a view. own is the device of the
// files that are the view's own: their inode numbers say nothing.
func TakeCopy(pids []int, own uint64) (*Inventory, error) {
	return take(pids, newReader(), func(st *unix.Stat_t, _ uint64) string {
		if st.Dev == own {
			return unknown
		}
		return strconv.FormatUint(st.Ino, 10)
	})
}

// numbering gives the inode number of a file as it is compared, empty if it isn't. root is the
// device of the process's root directory.
type numbering func(st *unix.Stat_t, root uint64) string

// numbersOfRoot gives those of the files with a name in the file system of the session's root.
// A file without a name is made again, and so is one in memory.
func numbersOfRoot(st *unix.Stat_t, root uint64) string {
	if st.Dev != root || st.Nlink == 0 {
		return ""
	}
	return strconv.FormatUint(st.Ino, 10)
}

func take(pids []int, read reader, numbers numbering) (*Inventory, error) {
	c := &collector{
		read: read, numbers: numbers, mapped: map[string]string{},
		inv: &Inventory{
			programs: map[int]string{}, objects: map[Object]facts{}, flows: map[string]flow{},
			devices: Devices{Names: map[string]bool{}, Indexes: map[int]bool{}},
		},
		names: map[string]string{}, ends: map[string]bool{}, inner: map[int]int{},
	}
	all := make([]look, 0, len(pids))
	for _, pid := range pids {
		l := look{Process: Process{PID: pid}, status: read(pid, "status")}
		l.Inner = innermost(l.status, "NSpid:")
		c.inner[pid] = l.Inner
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b look) int { return a.Inner - b.Inner })
	for i := range all {
		if err := c.process(&all[i]); err != nil {
			return nil, fmt.Errorf("list what process %d has: %w", all[i].Inner, err)
		}
		c.inv.all = append(c.inv.all, all[i].Process)
	}
	return c.inv, nil
}

// look is one process while it is looked at, with the files that say more than one thing of it.
type look struct {
	Process
	status string // /proc/PID/status
	stat   string // /proc/PID/stat
	root   uint64 // device of its root directory
}

// collector fills one inventory.
type collector struct {
	read  reader
	inv   *Inventory
	inner map[int]int       // pids within the session
	names map[string]string // what the kernel numbers, by the order in which it is met
	ends  map[string]bool   // of TCP connections that were met

	numbers numbering
	mapped  map[string]string // inode numbers of mapped files as they are compared, by device and number in maps
}

func (c *collector) note(o Object, aspect, value string) {
	c.inv.objects[o] = append(c.inv.objects[o], fact{aspect, value})
}

// named gives what the kernel numbers a number that depends on the tree alone.
func (c *collector) named(kind, number string) string {
	key := kind + " " + number
	if _, ok := c.names[key]; !ok {
		c.names[key] = kind + " " + strconv.Itoa(len(c.names)+1)
	}
	return c.names[key]
}

// Digest is equal for inventories that are equal but for inode numbers, which aren't the same
// after a resume if the private layer is a directory.
func (inv *Inventory) Digest() [sha256.Size]byte {
	h := sha256.New()
	var b []byte // there are many thousand facts, for which fmt is slow
	for _, o := range slices.SortedFunc(maps.Keys(inv.objects), order) {
		b = append(strconv.AppendInt(b[:0], int64(o.PID), 10), ' ')
		b = append(strconv.AppendQuote(b, o.Thing), '\n')
		for _, f := range inv.objects[o] {
			if f.aspect == aspectNumber {
				continue
			}
			b = append(append(append(b, ' '), f.aspect...), ' ')
			b = append(strconv.AppendQuote(b, f.value), '\n')
		}
		h.Write(b)
	}
	for _, name := range slices.Sorted(maps.Keys(inv.flows)) {
		fmt.Fprintf(h, "%q %v\n", name, inv.flows[name])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func order(a, b Object) int {
	if a.PID != b.PID {
		return a.PID - b.PID
	}
	return strings.Compare(a.Thing, b.Thing)
}

// innermost gives the last number of a line of a status file: in the process's own pid namespace.
func innermost(status, line string) int {
	f := strings.Fields(statusOf(status, line))
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(f[len(f)-1])
	return n
}

// statusOf gives the rest of a line of a status file.
func statusOf(status, name string) string {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	return ""
}
