package inventory

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

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
	watched  map[watchKey]watched
	paths    map[watchKey]string // of what is watched, as far as they were noted
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
func Take(pids []int) (*Inventory, error) { return take(pids, newReader, numbersOfRoot) }

// TakeCopy is Take of a copy that sees its files through a view. own is the device of the
// files that are the view's own: their inode numbers say nothing.
func TakeCopy(pids []int, own uint64) (*Inventory, error) {
	return take(pids, newReader, func(st *unix.Stat_t, _ uint64) string {
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

// take looks at several processes at a time. What depends on their order is made up when all of
// them were looked at.
func take(pids []int, readers func() reader, numbers numbering) (*Inventory, error) {
	all := make([]look, len(pids))
	inner := make(map[int]int, len(pids))
	err := each(len(all), readers, func(read reader, i int) error {
		all[i] = look{Process: Process{PID: pids[i]}, status: read(pids[i], "status")}
		all[i].Inner = innermost(all[i].status, "NSpid:")
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		inner[l.PID] = l.Inner
	}
	slices.SortFunc(all, func(a, b look) int { return a.Inner - b.Inner })
	parts := make([]*collector, len(all))
	mapped := &mappedNumbers{numbers: map[string]string{}}
	err = each(len(all), readers, func(read reader, i int) error {
		parts[i] = &collector{
			read: read, inner: inner, numbers: numbers, mapped: mapped, objects: map[Object]facts{}, watched: map[watchKey]watched{},
			devices: Devices{Names: map[string]bool{}, Indexes: map[int]bool{}},
		}
		if err := parts[i].process(&all[i]); err != nil {
			return fmt.Errorf("list what process %d has: %w", all[i].Inner, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	inv := joined(parts)
	for _, l := range all {
		inv.all = append(inv.all, l.Process)
	}
	return inv, nil
}

// each calls f for each of n processes, on all processors, and returns the error of the first
// process that had one.
func each(n int, readers func() reader, f func(read reader, i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var done sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		done.Go(func() {
			read := readers()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = f(read, i)
			}
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// look is one process while it is looked at, with the files that say more than one thing of it.
type look struct {
	Process
	status string // /proc/PID/status
	stat   string // /proc/PID/stat
	root   uint64 // device of its root directory
}

// collector notes what one process has. It is for one goroutine; inner, numbers and mapped are those of
// all processes.
type collector struct {
	read    reader
	inner   map[int]int // pids within the session
	numbers numbering
	mapped  *mappedNumbers

	pid      int // within the session
	program  string
	objects  map[Object]facts
	numbered []numbered
	ends     []end
	watched  map[watchKey]watched
	devices  Devices
}

// numbered is a fact whose value the kernel numbers: it gets a number that depends on the tree alone.
type numbered struct {
	object       Object
	fact         int // of the object's
	kind, number string
}

// end is one end of a TCP connection.
type end struct {
	own, peer string
	out, in   flow // what this end says of both directions
}

// mappedNumbers are the inode numbers of mapped files as they are compared, by the device of the
// process's root, and device, number and path in maps.
type mappedNumbers struct {
	mu      sync.Mutex
	numbers map[string]string
}

// of gives the number of a file, by look if no process has asked for it.
func (m *mappedNumbers) of(id string, look func() string) string {
	m.mu.Lock()
	n, ok := m.numbers[id]
	m.mu.Unlock()
	if ok {
		return n
	}
	n = look()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.numbers[id] = n
	return n
}

func (c *collector) note(o Object, aspect, value string) {
	c.objects[o] = append(c.objects[o], fact{aspect, value})
}

// noteNumbered notes a fact whose value the kernel numbers.
func (c *collector) noteNumbered(o Object, aspect, kind, number string) {
	c.numbered = append(c.numbered, numbered{o, len(c.objects[o]), kind, number})
	c.note(o, aspect, "")
}

// joined makes one inventory of what all processes have, in the order of these. What the kernel
// numbers is numbered by the order in which it is met.
func joined(parts []*collector) *Inventory {
	inv := &Inventory{
		programs: map[int]string{}, objects: map[Object]facts{}, flows: map[string]flow{}, watched: map[watchKey]watched{}, paths: map[watchKey]string{},
		devices: Devices{Names: map[string]bool{}, Indexes: map[int]bool{}},
	}
	names, met := map[string]string{}, map[string]bool{}
	for _, c := range parts {
		inv.programs[c.pid] = c.program
		for _, n := range c.numbered {
			key := n.kind + " " + n.number
			if _, ok := names[key]; !ok {
				names[key] = n.kind + " " + strconv.Itoa(len(names)+1)
			}
			c.objects[n.object][n.fact].value = names[key]
		}
		maps.Copy(inv.objects, c.objects)
		maps.Copy(inv.watched, c.watched)
		for _, e := range c.ends {
			inv.flow(e, met)
		}
		maps.Copy(inv.devices.Names, c.devices.Names)
		maps.Copy(inv.devices.Indexes, c.devices.Indexes)
		inv.devices.Groups = inv.devices.Groups || c.devices.Groups
	}
	return inv
}

// flow adds what one end of a connection says, unless it was met before: several descriptors
// may have it.
func (inv *Inventory) flow(e end, met map[string]bool) {
	name := e.own + " " + e.peer
	if met[name] {
		return
	}
	met[name] = true
	out, in := inv.flows[e.own+" to "+e.peer], inv.flows[e.peer+" to "+e.own]
	out.waiting, out.unsent, in.received = e.out.waiting, e.out.unsent, e.in.received
	inv.flows[e.own+" to "+e.peer], inv.flows[e.peer+" to "+e.own] = out, in
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
