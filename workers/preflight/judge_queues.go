package preflight

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// lost warns of what comes back different, which stops nothing.
func (j *judge) lost(p *Process, f *File, format string, args ...any) {
	j.warn(p, schemas.WarnNotKept, fd(p, f), "fd %d: "+format, append([]any{f.Num}, args...)...)
}

// tcp judges what is in the queues of a TCP socket.
func (j *judge) tcp(p *Process, f *File) {
	s := f.Socket
	switch {
	case s.Layer != "":
		j.block(p, what(f, fmt.Sprintf("TCP socket with %q in the kernel", s.Layer)), "CRIU captures it as plain TCP, and what it encrypts would be sent in the clear",
			"turn the kernel's TLS off in the program (ssl_conf_command Options -KTLS for nginx)")
	case s.Urgent:
		j.block(p, what(f, "TCP socket with urgent data"), "CRIU can't capture what is in the queue behind it", "let the program read it")
	case s.Failed:
		j.lost(p, f, "the error that waits in a TCP socket is lost")
	}
	j.unsent(p, f)
}

// datagrams judges a datagram socket of the internet.
func (j *judge) datagrams(p *Process, f *File) {
	s := f.Socket
	if s.Corked {
		j.warn(p, schemas.WarnPending, fd(p, f), "fd %d: a UDP socket holds a datagram back: a capture has to wait for that, or fails", f.Num)
	}
	switch {
	case s.Unread:
		j.lost(p, f, "the datagrams that wait in a UDP socket are lost")
	case s.Failed:
		j.lost(p, f, "the error that waits in a UDP socket is lost")
	}
}

// unixQueue judges what waits in a unix socket, and who it says is on the other end.
func (j *judge) unixQueue(p *Process, f *File, u UnixSocket) {
	s := f.Socket
	if u.Unsent > 0 && u.Type != unix.SOCK_DGRAM && j.waiting(u.Inode) {
		j.blockPair(p, f, "unix socket with data that hasn't been accepted yet", "CRIU can't capture what was sent into a connection before it is accepted",
			"let the program that listens accept it")
	}
	if u.Name != "" && u.State == unixEstablished && u.Peer == 0 && j.waiting(u.Inode) {
		j.lost(p, f, "a unix connection that isn't accepted yet loses the name of who connects, %s", u.Name)
	}
	if s.Urgent {
		j.block(p, what(f, "unix socket with urgent data"), "CRIU brings it back as plain data", "let the program read it")
	}
	if s.Empty {
		j.lost(p, f, "an empty packet that waits in a unix socket is lost")
	}
	if s.Moved != "" {
		j.lost(p, f, "a unix socket is bound to its first name again after a resume, and isn't reached by %s", s.Moved)
	}
	if u.Type == unix.SOCK_DGRAM && u.Peer == 0 && s.Unread {
		j.lost(p, f, "datagrams that wait in a unix socket lose the address of their sender")
	}
	if s.PassCred && s.Unread && u.State != unixListen {
		j.blockPair(p, f, "unix socket with credentials in its queue", "CRIU can't capture messages that say who sent them (SO_PASSCRED)", "let the program read them")
	}
}
