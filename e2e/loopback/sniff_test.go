package loopback

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = time.Minute

// ownNetwork gives this goroutine, and the processes that it starts from now on, a network
// namespace with a loopback device that is up.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	if err := bringUp("lo"); err != nil {
		t.Fatalf("bring up the loopback device: %v", err)
	}
}

func bringUp(device string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// sniffer hears all that crosses the loopback device.
type sniffer struct {
	fd    int
	heard chan []byte // all of it, once the sniffer has ended
	stop  int         // the write end of a pipe: closed to end it
}

// room is what the kernel keeps for a sniffer that isn't scheduled, in bytes.
const room = 256 << 20

// sniff opens a packet socket in the network of this goroutine.
func sniff(t *testing.T) *sniffer {
	t.Helper()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all))
	if err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: lo.Index}))
	}
	pipe := make([]int, 2)
	if err == nil {
		err = unix.Pipe2(pipe, unix.O_CLOEXEC)
	}
	if err != nil {
		t.Fatalf("open a packet socket: %v", err)
	}
	s := &sniffer{fd: fd, stop: pipe[1], heard: make(chan []byte, 1)}
	go func() {
		defer unix.Close(pipe[0])
		s.heard <- s.listen(pipe[0])
	}()
	return s
}

// listen reads packets until the pipe ends and no more are there.
func (s *sniffer) listen(ended int) []byte {
	var all bytes.Buffer
	packet := make([]byte, 1<<17)
	for last := false; ; {
		n, _, err := unix.Recvfrom(s.fd, packet, 0)
		switch {
		case err == nil:
			all.Write(packet[:n])
			continue
		case err != unix.EAGAIN && err != unix.EINTR || last:
			return all.Bytes()
		}
		fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(ended), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == nil {
			last = fds[1].Revents != 0
		}
	}
}

// end gives all that was heard, of which nothing may have been lost.
func (s *sniffer) end(t *testing.T) []byte {
	t.Helper()
	unix.Close(s.stop)
	select {
	case heard := <-s.heard:
		defer unix.Close(s.fd)
		stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
		if err != nil || stats.Drops > 0 {
			t.Fatalf("the sniffer lost packets: %+v, %v", stats, err)
		}
		return heard
	case <-time.After(limit):
		t.Fatal("the sniffer doesn't end")
		return nil
	}
}

// found gives the names of the markers that were heard.
func found(heard []byte, markers map[string]string) (names []string) {
	for name, m := range markers {
		if bytes.Contains(heard, []byte(m)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
