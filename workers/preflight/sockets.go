package preflight

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// unixSockets lists the unix sockets of the network namespace that a process is
// in.
func unixSockets(pid int) (all map[uint64]UnixSocket, err error) {
	err = thread.Discard(func() error {
		theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			return err
		}
		defer theirs.Close()
		if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network: %w", err)
		}
		all, err = unixSocketsHere()
		return err
	})
	return all, err
}

func unixSocketsHere() (map[uint64]UnixSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, unixRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	all := map[uint64]UnixSocket{}
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		done, err := readAnswer(buf[:n], all)
		if done || err != nil {
			return all, err
		}
	}
}

// The numbers of the kernel's sock_diag for unix sockets.
const (
	diagByFamily = 20

	showName  = 1
	showPeer  = 4
	showQueue = 8
	showSizes = 16

	attrName     = 0
	attrPeer     = 2
	attrQueue    = 3
	attrSizes    = 4
	attrShutdown = 6

	unixEstablished = 1
	unixListen      = 10
	shutdownBoth    = 3
)

// unixRequest asks for all unix sockets, with their peers, names and queues.
func unixRequest() []byte {
	b := make([]byte, 16+24)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], diagByFamily)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b[16] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(b[20:], 0xffffffff) // in all states
	binary.NativeEndian.PutUint32(b[28:], showName|showPeer|showQueue|showSizes)
	return b
}

func readAnswer(b []byte, all map[uint64]UnixSocket) (done bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return false, err
	}
	for _, m := range messages {
		switch m.Header.Type {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(m.Data) < 4 {
				return false, errors.New("the kernel's error is cut short")
			}
			errno := -int32(binary.NativeEndian.Uint32(m.Data))
			return false, fmt.Errorf("the kernel refuses: %w", syscall.Errno(errno))
		}
		if s, ok := parseUnix(m.Data); ok {
			all[s.Inode] = s
		}
	}
	return false, nil
}

// parseUnix reads a unix_diag_msg and its attributes.
func parseUnix(b []byte) (UnixSocket, bool) {
	if len(b) < 16 {
		return UnixSocket{}, false
	}
	s := UnixSocket{Type: int(b[1]), State: int(b[2]), Inode: uint64(binary.NativeEndian.Uint32(b[4:]))}
	for b = b[16:]; len(b) >= 4; {
		size, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if size < 4 || size > len(b) {
			break
		}
		s.attribute(kind, b[4:size])
		b = b[min((size+3)&^3, len(b)):]
	}
	return s, true
}

func (s *UnixSocket) attribute(kind uint16, value []byte) {
	switch {
	case kind == attrName:
		s.Name = string(value)
		if rest, ok := strings.CutPrefix(s.Name, "\x00"); ok {
			s.Name = "@" + rest
		}
		s.Name = strings.TrimRight(s.Name, "\x00")
	case kind == attrPeer && len(value) >= 4:
		s.Peer = uint64(binary.NativeEndian.Uint32(value))
	case kind == attrSizes && len(value) >= 8 && s.State != unixListen:
		s.Unsent = int(binary.NativeEndian.Uint32(value[4:]))
	case kind == attrShutdown && len(value) >= 1:
		s.Shutdown = int(value[0])
	case kind == attrQueue:
		for ; len(value) >= 4; value = value[4:] {
			s.Waiting = append(s.Waiting, uint64(binary.NativeEndian.Uint32(value)))
		}
	}
}
