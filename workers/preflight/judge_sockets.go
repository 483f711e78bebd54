package preflight

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// socket judges one socket by its family.
func (j *judge) socket(p *Process, f *File) {
	s := f.Socket
	switch {
	case f.Flags&unix.O_PATH != 0:
		j.block(p, what(f, "the file of a unix socket, opened with O_PATH"), "CRIU takes it for an open socket, and fails", "let the program close it")
	case s == nil: // closed meanwhile
	case s.inet():
		j.inet(p, f)
	case s.Domain == unix.AF_UNIX:
		if u, ok := j.Unix[s.Inode]; ok {
			j.unix(p, f, u)
		} else {
			j.blockPair(p, f, "unix socket of another network", "it was made outside the session's network namespace",
				"let the program close it, or start the session with --network host")
		}
	case s.Domain == unix.AF_NETLINK:
		if s.Unread {
			j.warn(p, schemas.WarnPending, fd(p, f), "fd %d: a netlink socket has something to read: a capture has to wait for that, or fails", f.Num)
		}
	case s.Domain == unix.AF_PACKET:
		if s.Unread {
			j.lost(p, f, "the packets that wait in a packet socket are lost")
		}
	default:
		j.block(p, what(f, family(s.Domain)+" socket"), "CRIU can't capture sockets of that family", "let the program close it")
	}
}

func family(domain int) string {
	names := map[int]string{unix.AF_VSOCK: "vsock", unix.AF_ALG: "kernel crypto (AF_ALG)", unix.AF_CAN: "CAN bus", unix.AF_BLUETOOTH: "Bluetooth",
		unix.AF_XDP: "XDP", unix.AF_TIPC: "TIPC", unix.AF_RDS: "RDS", unix.AF_SMC: "SMC", unix.AF_KEY: "IPsec key", unix.AF_QIPCRTR: "QRTR"}
	if name, ok := names[domain]; ok {
		return name
	}
	return fmt.Sprintf("family %d", domain)
}

func (j *judge) inet(p *Process, f *File) {
	s := f.Socket
	switch {
	case s.Type == unix.SOCK_RAW:
		if s.Unread {
			j.lost(p, f, "the datagrams that wait in a raw socket are lost")
		}
	case s.Protocol == unix.IPPROTO_MPTCP:
		j.block(p, what(f, "MPTCP socket"), "CRIU can't capture Multipath TCP",
			"use plain TCP: Go programs do with GODEBUG=multipathtcp=0 in their environment")
	case s.Type != unix.SOCK_STREAM && s.Type != unix.SOCK_DGRAM, !known(s.Protocol):
		j.block(p, what(f, fmt.Sprintf("internet socket of type %d, protocol %d", s.Type, s.Protocol)), "CRIU captures TCP, UDP, ICMP and raw sockets only",
			"let the program close it")
	case s.Type == unix.SOCK_DGRAM:
		j.datagrams(p, f)
	default:
		j.tcp(p, f)
	}
}

// known reports whether CRIU takes an internet protocol.
func known(protocol int) bool {
	switch protocol {
	case unix.IPPROTO_IP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_UDPLITE, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		return true
	}
	return false
}

// unix judges a unix socket by where its other end is.
func (j *judge) unix(p *Process, f *File, u UnixSocket) {
	j.unixQueue(p, f, u)
	if u.Peer != 0 {
		switch {
		case j.held.sockets[u.Peer] || j.waiting(u.Peer) || j.External(fmt.Sprintf("socket:[%d]", u.Peer)):
		case j.held.passing:
			j.warn(p, schemas.WarnInFlight, fd(p, f), "fd %d: the other end of the unix socket is held by no process of the session; "+
				"it is taken for one of the descriptors that wait in unix sockets here", f.Num)
		default:
			j.blockPair(p, f, "unix socket connected to "+j.peerName(u.Peer), "the other end is held by a process outside the session",
				"let the program close the connection, or start what it talks to within the session")
		}
		return
	}
	switch {
	case u.State == unixListen:
		for _, inode := range u.Waiting {
			if inode == 0 {
				j.warn(p, schemas.WarnPending, fd(p, f), "fd %d: a closed connection to the unix socket %s waits to be accepted: a capture has to wait for that, or fails", f.Num, u.Name)
			}
		}
	case u.State == unixEstablished && u.Type != unix.SOCK_DGRAM && u.Shutdown != shutdownBoth && !j.waiting(u.Inode):
		j.blockPair(p, f, "unix socket that hasn't been accepted yet", "who listens is a process outside the session",
			"let the program close the connection, or start what it talks to within the session")
	}
}

// waiting reports whether a socket waits to be accepted by a listener of the
// tree.
func (j *judge) waiting(inode uint64) bool {
	for listener := range j.held.sockets {
		for _, w := range j.Unix[listener].Waiting {
			if w == inode {
				return true
			}
		}
	}
	return false
}

// peerName tells a person who is on the other end, as far as its name does.
func (j *judge) peerName(inode uint64) string {
	if name := j.Unix[inode].Name; name != "" {
		return name
	}
	return "a socket without a name"
}
