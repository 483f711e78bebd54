package tree

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Connection is one TCP connection of the tree that isn't closed yet.
type Connection struct {
	PID         int // a process that holds it; if Pending, one that listens
	Local       netip.AddrPort
	Remote      netip.AddrPort
	Established bool // false: on its way up or down
	Inside      bool // the other end belongs to the tree too
	Inbound     bool // the other end is outside, and made the connection
	Pending     bool // it waits in a listener's queue and isn't accepted yet
}

func (c Connection) String() string {
	if c.Inbound {
		return fmt.Sprintf("%s from %s", c.Local, c.Remote)
	}
	return fmt.Sprintf("%s to %s", c.Local, c.Remote)
}

// socket is a line of /proc/PID/net/tcp or tcp6.
type socket struct {
	local, remote netip.AddrPort
	state         uint8
	inode         uint64 // 0: of no process, in a queue or orphaned
}

// The states of a TCP socket that matter here, as the kernel numbers them.
const (
	stateEstablished = 1
	stateTimeWait    = 6
	stateClosed      = 7
	stateListen      = 10
	stateNewSynRecv  = 12
)

// Connections lists the TCP connections of the processes. A connection between
// two of them is listed from both ends, as Inside. A connection counts as
// Inbound if the tree listens on its local port; one whose listener has been
// closed since can't be told from an outbound one, and isn't Inbound.
func (o *Opened) Connections(pids []int) ([]Connection, error) {
	all, _, err := o.TCP(pids)
	return all, err
}

// TCP lists the TCP connections of the processes, as Connections, and the ports that they listen on,
// in order.
func (o *Opened) TCP(pids []int) (all []Connection, listening []uint16, err error) {
	spaces, err := o.bySpace(pids)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range spaces {
		if len(s.holders) == 0 {
			continue // the kernel goes through all of the host's connections for an answer
		}
		sockets, err := readSockets(s.pid)
		if err != nil {
			return nil, nil, err
		}
		t := newTable(sockets, s.holders)
		all = append(all, t.connections(sockets)...)
		listening = slices.AppendSeq(listening, maps.Keys(t.listeners))
	}
	slices.Sort(listening)
	return all, slices.Compact(listening), nil
}

// space is a network namespace that processes of the tree are in.
type space struct {
	pid     int            // one of them
	holders map[uint64]int // inode of a socket → a process that has it open
}

// bySpace sorts the sockets of the tree by network namespace. A socket that was
// passed into another namespace is looked for in its holder's.
func (o *Opened) bySpace(pids []int) (map[string]*space, error) {
	spaces := map[string]*space{}
	for _, pid := range pids {
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find network of process %d: %w", pid, err)
		}
		fds, err := o.FDs(pid)
		if err != nil {
			return nil, err
		}
		if spaces[name] == nil {
			spaces[name] = &space{pid: pid, holders: map[uint64]int{}}
		}
		for _, fd := range fds {
			if inode, ok := fd.Inode("socket"); ok {
				spaces[name].holders[inode] = pid
			}
		}
	}
	return spaces, nil
}

func readSockets(pid int) ([]socket, error) {
	var all []socket
	for _, file := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if gone(err) { // the process has ended, or there is no IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list connections of process %d: %w", pid, err)
		}
		sockets, err := parseSockets(b)
		if err != nil {
			return nil, fmt.Errorf("list connections of process %d: %w", pid, err)
		}
		all = append(all, sockets...)
	}
	return all, nil
}

func parseSockets(b []byte) ([]socket, error) {
	var all []socket
	first := true
	for line := range bytes.Lines(b) {
		if first { // the names of the columns
			first = false
			continue
		}
		f := strings.Fields(string(line))
		if len(f) < 10 {
			return nil, fmt.Errorf("line %q is not of the known form", line)
		}
		local, err1 := parseAddr(f[1])
		remote, err2 := parseAddr(f[2])
		state, err3 := strconv.ParseUint(f[3], 16, 8)
		inode, err4 := strconv.ParseUint(f[9], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			return nil, fmt.Errorf("line %q is not of the known form", line)
		}
		all = append(all, socket{local, remote, uint8(state), inode})
	}
	return all, nil
}

// parseAddr reads "0100007F:1F90": words of 32 bits in the order of this
// machine, then the port. An IPv4 address in an IPv6 one becomes the former.
func parseAddr(s string) (netip.AddrPort, error) {
	words, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(words)
	if !ok || err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

// newTable finds what the tree has among all sockets of its network namespace.
func newTable(sockets []socket, holders map[uint64]int) table {
	t := table{holders: holders, listeners: map[uint16][]listener{}, ends: map[ends]bool{}}
	for _, s := range sockets {
		if pid, ok := holders[s.inode]; ok && s.state == stateListen {
			t.listeners[s.local.Port()] = append(t.listeners[s.local.Port()], listener{s.local.Addr(), pid})
		}
	}
	for _, s := range sockets {
		if _, _, ok := t.owner(s); ok {
			t.ends[ends{s.local, s.remote}] = true
		}
	}
	return t
}

// connections picks those of the tree out of all sockets of its network namespace.
func (t table) connections(sockets []socket) (all []Connection) {
	for _, s := range sockets {
		if pid, pending, ok := t.owner(s); ok {
			c := Connection{PID: pid, Local: s.local, Remote: s.remote, Pending: pending}
			c.Established = s.state == stateEstablished
			c.Inside = t.ends[ends{s.remote, s.local}]
			_, listening := t.listener(s.local)
			c.Inbound = listening && !c.Inside
			all = append(all, c)
		}
	}
	return all
}

type table struct {
	holders   map[uint64]int
	listeners map[uint16][]listener
	ends      map[ends]bool
}

type listener struct {
	addr netip.Addr
	pid  int
}

type ends struct{ local, remote netip.AddrPort }

// owner finds the process that a connection belongs to: who has it open, or who
// will accept it. It reports false for a socket that isn't a connection, or belongs
// to no process here.
func (t table) owner(s socket) (pid int, pending, ok bool) {
	switch s.state {
	case stateListen, stateTimeWait, stateClosed, stateNewSynRecv:
		return 0, false, false
	}
	if s.inode == 0 {
		pid, ok = t.listener(s.local)
		return pid, true, ok && s.state == stateEstablished
	}
	pid, ok = t.holders[s.inode]
	return pid, false, ok
}

// listener finds a process of the tree that listens on an address.
func (t table) listener(at netip.AddrPort) (pid int, ok bool) {
	for _, l := range t.listeners[at.Port()] {
		if l.addr.IsUnspecified() || l.addr == at.Addr() {
			return l.pid, true
		}
	}
	return 0, false
}
