package gate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UID is a user of this machine.
type UID uint32

// Unknown stands for all users that the kernel doesn't name.
const Unknown UID = 1<<32 - 1

// diagRequest is struct inet_diag_req_v2 of the kernel.
type diagRequest struct {
	family, protocol, extensions, _ uint8
	states                          uint32
	sport, dport                    [2]byte // of the socket that is asked for, in network order
	src, dst                        [16]byte
	device                          uint32
	cookie                          [2]uint32
}

// Places in struct inet_diag_msg.
const (
	diagUID  = 64
	diagSize = 72
)

// owner gives the user whose socket at from is connected to the one at to, both of the
// network of this process.
func owner(from, to netip.AddrPort) (UID, error) {
	uid, err := askOwner(from, to)
	if err != nil {
		return Unknown, fmt.Errorf("find the user of the connection from %s: %w", from, err)
	}
	return uid, nil
}

func askOwner(from, to netip.AddrPort) (UID, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, question(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	return readOwner(answer[:n])
}

func question(from, to netip.AddrPort) []byte {
	r := diagRequest{protocol: unix.IPPROTO_TCP, states: ^uint32(0), cookie: [2]uint32{^uint32(0), ^uint32(0)}}
	binary.BigEndian.PutUint16(r.sport[:], from.Port())
	binary.BigEndian.PutUint16(r.dport[:], to.Port())
	r.family = unix.AF_INET
	if from.Addr().Is6() {
		r.family = unix.AF_INET6
	}
	copy(r.src[:], from.Addr().AsSlice())
	copy(r.dst[:], to.Addr().AsSlice())
	length := unix.SizeofNlMsghdr + int(unsafe.Sizeof(r))
	b := binary.NativeEndian.AppendUint32(nil, uint32(length))
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence and port
	return append(b, unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))...)
}

func readOwner(answer []byte) (UID, error) {
	if len(answer) < unix.SizeofNlMsghdr+4 {
		return 0, errors.New("the kernel's answer is short")
	}
	body := answer[unix.SizeofNlMsghdr:]
	switch kind := binary.NativeEndian.Uint16(answer[4:]); {
	case kind == unix.NLMSG_ERROR:
		return 0, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
	case kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < diagSize:
		return 0, fmt.Errorf("the kernel's answer has type %d and %d bytes", kind, len(body))
	}
	return UID(binary.NativeEndian.Uint32(body[diagUID:])), nil
}
