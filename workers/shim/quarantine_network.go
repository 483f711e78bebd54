package shim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/inventory"
	"github.com/diapause/diapause/workers/shim/stage"
	"github.com/diapause/diapause/workers/thread"
)

// alone runs do on a thread whose network namespace is new. It has the addresses of the one of
// the process pid, and interfaces of the same names and numbers as those that sockets depend
// on; all of it is within the namespace. So what can be bound or connected there can be on this
// host, and reaches nothing. The thread ends when over is closed, and with it what is to end
// with its parent.
func alone(pid int, used inventory.Devices, over <-chan struct{}, do func() error) error {
	done := make(chan error, 1)
	go func() {
		_ = thread.Discard(func() error {
			err := mirror(pid, used)
			if err != nil {
				err = fmt.Errorf("make a network for the rehearsal: %w", err)
			} else {
				err = do()
			}
			done <- err
			<-over
			return nil
		})
	}()
	return <-done
}

// mirror puts the thread into a network namespace as alone has it.
func mirror(pid int, used inventory.Devices) error {
	seen, err := lookAtNetwork(pid, used)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := stage.LoopbackUp(); err != nil {
		return err
	}
	return seen.repeat()
}

// seenNetwork is what a quarantine repeats of the network of a session.
type seenNetwork struct {
	devices   []net.Interface // those that sockets depend on
	addresses []netAddress
	sysctls   map[string]string
}

type netAddress struct {
	header    unix.IfAddrmsg
	ip        []byte
	broadcast []byte
}

// permits say which sockets programs may make and bind, with what each is in a new network: addresses that the
// host hasn't, low ports, ICMP.
var permits = map[string]string{
	"/proc/sys/net/ipv4/ip_nonlocal_bind":           "0",
	"/proc/sys/net/ipv6/ip_nonlocal_bind":           "0",
	"/proc/sys/net/ipv4/ip_unprivileged_port_start": "1024",
	"/proc/sys/net/ipv4/ping_group_range":           "1\t0",
}

// lookAtNetwork puts the thread into the network namespace of a process and looks at it.
func lookAtNetwork(pid int, used inventory.Devices) (*seenNetwork, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open the session's first process: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("look at the session's network: %w", err)
	}
	n := &seenNetwork{sysctls: map[string]string{}}
	for name, usual := range permits {
		if b, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(b)) != usual {
			n.sysctls[name] = string(b)
		}
	}
	if n.addresses, err = addresses(); err != nil {
		return nil, err
	}
	grouped := map[string]bool{}
	if used.Groups {
		grouped = groupDevices(pid)
	}
	if len(used.Names)+len(used.Indexes)+len(grouped) == 0 {
		return n, nil
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	for _, i := range all {
		if i.Index != loopback && (used.Names[i.Name] || used.Indexes[i.Index] || grouped[i.Name]) {
			n.devices = append(n.devices, i)
		}
	}
	return n, nil
}

// addresses lists those of the thread's network namespace.
func addresses() ([]netAddress, error) {
	b, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("list network addresses: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil, fmt.Errorf("list network addresses: %w", err)
	}
	var all []netAddress
	for i, m := range messages {
		if m.Header.Type != unix.RTM_NEWADDR || len(m.Data) < unix.SizeofIfAddrmsg {
			continue
		}
		attributes, err := syscall.ParseNetlinkRouteAttr(&messages[i])
		if err != nil {
			return nil, fmt.Errorf("list network addresses: %w", err)
		}
		a := netAddress{header: unix.IfAddrmsg{Family: m.Data[0], Scope: m.Data[3], Index: binary.NativeEndian.Uint32(m.Data[4:])}}
		for _, at := range attributes {
			switch {
			case at.Attr.Type == unix.IFA_LOCAL, at.Attr.Type == unix.IFA_ADDRESS && a.ip == nil:
				a.ip = at.Value
			case at.Attr.Type == unix.IFA_BROADCAST:
				a.broadcast = at.Value
			}
		}
		if a.ip != nil && !net.IP(a.ip).IsLoopback() {
			all = append(all, a)
		}
	}
	return all, nil
}

// groupDevices lists interfaces on which multicast groups have members.
func groupDevices(pid int) map[string]bool {
	found := map[string]bool{}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/igmp", pid)) // not there without IPv4
	for line := range strings.Lines(string(b)) {
		// "2	eth0      :     2      V3", then a line for each group: there is one of all hosts
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != ":" {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil && n > 1 {
			found[f[1]] = true
		}
	}
	b, _ = os.ReadFile(fmt.Sprintf("/proc/%d/net/igmp6", pid))
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		// Each interface is in the groups of all nodes, and of each of its addresses.
		if len(f) > 2 && f[2] != "ff020000000000000000000000000001" && f[2] != "ff010000000000000000000000000001" && !strings.HasPrefix(f[2], "ff0200000000000000000001ff") {
			found[f[1]] = true
		}
	}
	return found
}

// loopback is the index of lo, the first interface of each network namespace.
const loopback = 1

// repeat makes what was seen in the thread's network namespace.
func (n *seenNetwork) repeat() error {
	c, err := openRoutes()
	if err != nil {
		return err
	}
	defer unix.Close(c.fd)
	made, err := n.addDevices(c)
	if err != nil {
		return err
	}
	for _, a := range n.addresses {
		if !made[a.header.Index] {
			a.header.Index = loopback
		}
		// Two interfaces may have one address; IPv6 may be switched off for one that is made.
		if err := c.addAddress(a); err != nil && err != unix.EEXIST && a.header.Family != unix.AF_INET6 {
			return fmt.Errorf("add the address %v: %w", net.IP(a.ip), err)
		}
	}
	// What is connected to the outside needs a route, too.
	if err := c.addRoute(unix.AF_INET, unix.RT_TABLE_MAIN, unix.RTN_UNICAST, unix.RT_SCOPE_UNIVERSE); err != nil {
		return fmt.Errorf("add a route: %w", err)
	}
	_ = c.addRoute(unix.AF_INET6, unix.RT_TABLE_LOCAL, unix.RTN_LOCAL, unix.RT_SCOPE_HOST) // IPv6 may be switched off
	for name, value := range n.sysctls {
		if err := os.WriteFile(name, []byte(value), 0); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// addDevices makes the interfaces, and lists their numbers.
func (n *seenNetwork) addDevices(c *routes) (made map[uint32]bool, err error) {
	made = map[uint32]bool{}
	for _, d := range n.devices {
		if err := c.addDevice(d); err != nil {
			return nil, fmt.Errorf("make the interface %s: %w", d.Name, err)
		}
		made[uint32(d.Index)] = true
	}
	return made, nil
}

// repeatDevices makes the interfaces that sockets depend on in the copy's private network.
func (q *quarantine) repeatDevices() error {
	return q.network.Inside(func() error {
		var seen *seenNetwork
		err := thread.Discard(func() (err error) {
			seen, err = lookAtNetwork(q.init, q.before.Devices())
			return err
		})
		if err != nil {
			return err
		}
		c, err := openRoutes()
		if err != nil {
			return err
		}
		defer unix.Close(c.fd)
		_, err = seen.addDevices(c)
		return err
	})
}

// routes changes interfaces, addresses and routes of one network namespace.
type routes struct {
	fd  int
	seq uint32
}

func openRoutes() (*routes, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return &routes{fd: fd}, nil
}

// addDevice makes an interface that leads nowhere. The kernel may lack one kind or the other.
func (c *routes) addDevice(d net.Interface) error {
	var err error
	for _, kind := range []string{"dummy", "bridge"} {
		b := make([]byte, unix.SizeofIfInfomsg)
		binary.NativeEndian.PutUint32(b[4:], uint32(d.Index))
		binary.NativeEndian.PutUint32(b[8:], unix.IFF_UP)
		binary.NativeEndian.PutUint32(b[12:], unix.IFF_UP)
		b = attribute(b, unix.IFLA_IFNAME, append([]byte(d.Name), 0))
		b = attribute(b, unix.IFLA_LINKINFO, attribute(nil, unix.IFLA_INFO_KIND, []byte(kind)))
		if err = c.do(unix.RTM_NEWLINK, b); err != unix.EOPNOTSUPP {
			return err
		}
	}
	return err
}

func (c *routes) addAddress(a netAddress) error {
	const bits = 8
	b := []byte{a.header.Family, byte(len(a.ip) * bits), 0, a.header.Scope}
	b = binary.NativeEndian.AppendUint32(b, a.header.Index)
	b = attribute(b, unix.IFA_LOCAL, a.ip)
	b = attribute(b, unix.IFA_ADDRESS, a.ip)
	if a.broadcast != nil {
		b = attribute(b, unix.IFA_BROADCAST, a.broadcast)
	}
	b = attribute(b, unix.IFA_FLAGS, binary.NativeEndian.AppendUint32(nil, unix.IFA_F_NODAD))
	return c.do(unix.RTM_NEWADDR, b)
}

// addRoute leads to all addresses of a family by the loopback interface.
func (c *routes) addRoute(family, table, kind, scope byte) error {
	b := []byte{family, 0, 0, 0, table, unix.RTPROT_BOOT, scope, kind, 0, 0, 0, 0}
	return c.do(unix.RTM_NEWROUTE, attribute(b, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback)))
}

// attribute appends one, with its length and type before and padding behind.
func attribute(b []byte, kind uint16, value []byte) []byte {
	const align = 4
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, (align-len(value)%align)%align)...)
}

// do has the kernel carry out one request.
func (c *routes) do(kind uint16, body []byte) error {
	c.seq++
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_ACK)
	m = binary.NativeEndian.AppendUint32(m, c.seq)
	m = append(binary.NativeEndian.AppendUint32(m, 0), body...)
	if err := unix.Sendto(c.fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(c.fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return errors.New("the kernel's answer is cut short")
	}
	if code := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:]))); code != 0 {
		return code
	}
	return nil
}
