package criu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/thread"
)

// TestGarbageAtTheShim sends to both sockets of a shim what no worker and no client sends. It is refused,
// nothing of it is kept, and the session runs on and can be suspended.
func TestGarbageAtTheShim(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "s", answering("", `"heard $line"`))
	s.want("ready")
	sockets := map[string]string{"unixpacket": shim.ControlSocket(s.uid), "unix": shim.StreamSocket(s.uid)}
	pid := s.shimPID()
	before := descriptors(t, pid)
	chaos := rand.NewChaCha8([32]byte{1})
	long := make([]byte, 60<<10)
	for range 20 {
		_, _ = chaos.Read(long)
		for network, socket := range sockets {
			for _, sent := range [][]byte{
				long[:1+chaos.Uint64()%1000], long, {'R', 0xff, 0xff, 0xff, 0xff}, {0}, {1}, []byte("\x00{}"), []byte("\x00null"), []byte("R\x00\x00\x00\x02{}"),
				[]byte("R\x00\x00\x00\x04null"), []byte("\x00{\"op\":\"capture\",\"epoch\":0}"), []byte("i\x00\x00\x00\x01x"), append([]byte("\x00"), bytes.Repeat([]byte("["), 50<<10)...),
			} {
				s.send(network, socket, sent)
			}
		}
	}
	const lazily = 8 // descriptors that are opened when they are needed first
	for end := time.Now().Add(time.Minute); descriptors(t, pid) > before+lazily; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("its shim has %d descriptors, %d before", descriptors(t, pid), before)
		}
	}
	// Those that say nothing, or only a part, and stay.
	for range 200 {
		for network, socket := range sockets {
			c := s.knock(network, socket)
			defer c.Close()
			if network == "unix" {
				_, _ = c.Write([]byte{'R', 0, 4, 0, 0, '{'}) // 262,144 bytes are to follow
			}
		}
	}
	if got := s.ask("1", "a"); got != "heard a" {
		t.Errorf("the session answers %q", got)
	}
	s.cycle()
	if got := s.ask("2", "b"); got != "heard b" {
		t.Errorf("after a suspend it answers %q", got)
	}
	if _, err := s.d.shims.status(limited(t), s.uid); err != nil {
		t.Errorf("its shim doesn't answer: %v", err)
	}
}

// TestStrangersAtTheShim has another user of the machine connect to a shim whose directory is open by
// mistake.
func TestStrangersAtTheShim(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "s", schemas.Spec{Command: []string{"sleep", "infinity"}})
	run := s.d.shims.dir.run
	dir, err := os.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	const stranger = 65534
	connect := func(kind int, name string) (answer string, err error) {
		err = thread.Discard(func() error {
			if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, stranger, stranger, stranger); no != 0 {
				return no
			}
			fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.Connect(fd, &unix.SockaddrUnix{Name: shim.SocketPath(dir.Fd(), name)}); err != nil {
				return err
			}
			_, _ = unix.Write(fd, []byte("\x00{\"op\":\"status\"}")) // it may be closed
			b := make([]byte, 1000)
			n, err := unix.Read(fd, b)
			answer = string(b[:max(n, 0)])
			if errors.Is(err, unix.ECONNRESET) {
				err = nil
			}
			return err
		})
		return answer, err
	}
	for kind, name := range map[int]string{unix.SOCK_SEQPACKET: shim.ControlSocket(s.uid), unix.SOCK_STREAM: shim.StreamSocket(s.uid)} {
		if _, err := connect(kind, name); !errors.Is(err, unix.EACCES) {
			t.Errorf("a connection of another user to %s gives %v, want EACCES", name, err)
		}
		for _, path := range []string{run, run + "/" + name} {
			if err := os.Chmod(path, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if answer, err := connect(kind, name); err != nil || answer != "" {
			t.Errorf("%s answers another user with %q, %v", name, answer, err)
		}
		if err := os.Chmod(run, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// knock connects to a socket of the session's shim.
func (s *session) knock(network, socket string) *net.UnixConn {
	s.t.Helper()
	c, err := s.d.shims.dial(limited(s.t), network, socket)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// send sends something and wants the connection to end.
func (s *session) send(network, socket string, what []byte) {
	s.t.Helper()
	c := s.knock(network, socket)
	defer c.Close()
	if _, err := c.Write(what); err != nil && !errors.Is(err, unix.EPIPE) {
		s.t.Fatal(err)
	}
	if network == "unix" {
		if err := c.CloseWrite(); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, unix.ECONNRESET) {
		s.t.Errorf("after %.20q of %d bytes the connection ends with %v", what, len(what), err)
	}
}

// descriptors counts those of a process.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
