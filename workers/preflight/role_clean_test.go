package preflight_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// clean has many things open that a capture takes along, and works.
func clean(string) error {
	for _, step := range []func() error{cleanEvents, cleanPipes, cleanMemory, cleanFiles, cleanNetwork, cleanTTY, cleanChild} {
		if err := step(); err != nil {
			return err
		}
	}
	go func() {
		for x := 0; ; x++ {
			runtime.Gosched()
		}
	}()
	return nil
}

// churn makes connections and starts processes with pipes, without an end.
func churn(string) error {
	l, err := net.Listen("unix", "/tmp/churn.sock")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	go func() {
		for {
			c, err := net.Dial("unix", "/tmp/churn.sock")
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("x"))
			_, _ = c.Read(make([]byte, 1))
			c.Close()
		}
	}()
	go func() {
		for exec.Command("/bin/sh", "-c", "echo x | cat").Run() == nil {
			runtime.Gosched()
		}
	}()
	return nil
}

func cleanEvents() error {
	event, err := unix.Eventfd(3, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, 0)
	if err != nil {
		return err
	}
	var mask unix.Sigset_t
	mask.Val[0] = 1 << (unix.SIGUSR2 - 1)
	sig, err := unix.Signalfd(-1, &mask, 0)
	if err != nil {
		return err
	}
	poll, err := unix.EpollCreate1(0)
	if err != nil {
		return err
	}
	for _, fd := range []int{event, timer, sig} {
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
	}
	return nil
}

func cleanPipes() error {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return err
	}
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
		if _, err := unix.Socketpair(unix.AF_UNIX, kind, 0); err != nil {
			return err
		}
	}
	l, err := net.Listen("unix", "/tmp/clean.sock")
	if err != nil {
		return err
	}
	if _, err := net.Dial("unix", "/tmp/clean.sock"); err != nil {
		return err
	}
	held, err := l.Accept()
	keep = append(keep, l, held)
	return err
}

// keep holds what mustn't be collected, and closed with that.
var keep []any

func cleanMemory() error {
	fd, err := unix.MemfdCreate("clean", 0)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, 8192); err != nil {
		return err
	}
	if _, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	if _, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON); err != nil {
		return err
	}
	shm, err := os.Create("/dev/shm/clean")
	if err != nil {
		return err
	}
	keep = append(keep, shm)
	if err := shm.Truncate(4096); err != nil {
		return err
	}
	_, err = unix.Mmap(int(shm.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func cleanFiles() error {
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/proc/self/status", "/etc", "/proc"} {
		if err := open(unix.Open(name, unix.O_RDONLY, 0)); err != nil {
			return fmt.Errorf("open %s: %w", name, err)
		}
	}
	f, err := os.Create("/tmp/locked")
	if err != nil {
		return err
	}
	keep = append(keep, f)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 10}); err != nil {
		return err
	}
	if err := ghost("4096"); err != nil {
		return err
	}
	return inotify("/dev/shm")
}

func cleanNetwork() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	s, err := l.Accept()
	if err != nil {
		return err
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	keep = append(keep, l, c, s, u)
	return err
}

func cleanTTY() error {
	master, slave, err := pty()
	keep = append(keep, master, slave)
	return err
}

func pty() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, slave, err
}

func cleanChild() error {
	cmd := exec.Command("/bin/sleep", "600")
	in, err := cmd.StdinPipe()
	keep = append(keep, in, cmd)
	if err != nil {
		return err
	}
	return cmd.Start()
}
