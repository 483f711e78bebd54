package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/accept"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/shim/control"
)

// servers are the two sockets of a shim.
type servers struct {
	orders  *net.UnixListener
	streams *net.UnixListener
}

// SocketPath returns a path for a socket in the run directory that dirFD is open
// on. The path is short, however long the directory's name is.
func SocketPath(dirFD uintptr, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dirFD, name)
}

func listen(setup Setup) (*servers, error) {
	dir, err := unix.Open(setup.Run, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the run directory: %w", err)
	}
	// The listeners name their sockets by this descriptor, so it stays open.
	open := func(network, name string) (*net.UnixListener, error) {
		if err := unix.Unlinkat(dir, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("remove an old socket: %w", err)
		}
		l, err := net.ListenUnix(network, &net.UnixAddr{Net: network, Name: SocketPath(uintptr(dir), name)})
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", filepath.Join(setup.Run, name), err)
		}
		l.SetUnlinkOnClose(false) // the worker removes it
		return l, nil
	}
	orders, err := open("unixpacket", ControlSocket(setup.UID))
	if err != nil {
		return nil, err
	}
	streams, err := open("unix", StreamSocket(setup.UID))
	if err != nil {
		orders.Close()
		return nil, err
	}
	return &servers{orders, streams}, nil
}

// serve answers on both sockets until the process ends.
func (v *servers) serve(s *session) {
	settler := newSettler()
	s.recorder.settles(settler.later)
	go takeAll(v.orders, ordersAtOnce, func(c *net.UnixConn) {
		if o := s.obey(control.FromConn(c)); o != OrderObserve && o != OrderStatus && o != OrderRenew {
			settler.later()
		}
	})
	go takeAll(v.streams, clientsAtOnce, func(c *net.UnixConn) {
		defer settler.later()
		s.clients.attend(c)
	})
}

// The connections that a socket serves at once; what comes then waits.
const (
	ordersAtOnce  = 256
	clientsAtOnce = 4096
)

// orderWait bounds the wait for the order of a connection.
const orderWait = time.Minute

func takeAll(l *net.UnixListener, most int, serve func(*net.UnixConn)) {
	room := make(chan struct{}, most)
	take := func() (*net.UnixConn, error) {
		room <- struct{}{}
		c, err := l.AcceptUnix()
		if err != nil {
			<-room
		}
		return c, err
	}
	accept.Each(context.Background(), take, func(c *net.UnixConn) {
		go func() {
			defer func() { <-room }()
			if !ofOurUser(c) {
				c.Close()
				return
			}
			serve(c)
		}()
	}, nil)
}

// ofOurUser reports whether another process is of this one's user, as workers are. Others can't reach the
// sockets unless their directory was opened to them.
func ofOurUser(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var who *unix.Ucred
	controlErr := raw.Control(func(fd uintptr) {
		who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return controlErr == nil && err == nil && int(who.Uid) == os.Geteuid()
}

// obey carries out the one order that comes over c, and returns what it was.
func (s *session) obey(c *control.Conn) (op string) {
	defer c.Close()
	var o Order
	err := c.SetDeadline(time.Now().Add(orderWait))
	if err == nil {
		err = c.ReceiveShort(&o)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		return ""
	}
	m, err := s.order(c, o)
	if err != nil {
		m = Message{Failure: failure(err)}
	}
	stopped := o.Op == OrderStop && err == nil
	var rest []*os.File
	if stopped {
		rest = s.online.leave()
	}
	if err := c.Send(m, rest...); err != nil && stopped {
		_ = network.Finish(rest) // a worker that is gone needs no answer
	}
	for _, f := range rest {
		f.Close()
	}
	if stopped {
		close(s.stopped)
	}
	return o.Op
}

// stopWait bounds the wait for a killed session to be gone.
const stopWait = time.Minute

func (s *session) order(c *control.Conn, o Order) (Message, error) {
	ctx := context.Background()
	if err := s.points.hear(o.Failpoints); err != nil {
		return Message{}, err
	}
	switch o.Op {
	case OrderStatus:
		return s.status()
	case OrderWait:
		<-s.tree.main.done
		return s.status()
	case OrderPreflight:
		s.work.Lock()
		defer s.work.Unlock()
		return s.dumper.blockers(ctx)
	case OrderObserve:
		seen, err := s.tree.observe()
		seen.PID = s.state.read().PID
		seen.Input = s.clients.viewers.input()
		return Message{Phase: PhaseDone, Seen: &seen}, err
	case OrderRecord:
		return Message{Phase: PhaseDone}, s.recorder.sealed(true)
	case OrderRedact:
		return Message{Phase: PhaseDone}, s.tree.main.redact(o.Match)
	}
	if o.Op == OrderRenew { // the lease is the host's, not the session's: no fence
		return Message{Phase: PhaseDone}, s.guard.hear(o.Lease)
	}
	if err := s.state.fence(o.Epoch); err != nil {
		return Message{}, err
	}
	if err := s.points.at(failpoint.ShimOrdered); err != nil {
		return Message{}, err
	}
	beginWork()
	switch o.Op {
	case OrderCapture:
		s.work.Lock()
		defer s.work.Unlock()
		dump, err := s.dumper.capture(ctx, c, o)
		return Message{Phase: PhaseDone, Dump: dump}, err
	case OrderThaw:
		if err := s.guard.hear(o.Lease); err != nil {
			return Message{}, err
		}
		s.work.Lock()
		defer s.work.Unlock()
		return Message{Phase: PhaseDone}, s.dumper.thaw(true)
	case OrderStop:
		s.clients.awaitLastWords()
		return Message{Phase: PhaseDone}, s.stop()
	}
	return Message{}, fmt.Errorf("the shim knows no order %q", o.Op)
}

func (s *session) status() (Message, error) {
	state := s.state.read()
	frozen := false
	if state.Exit == nil {
		var err error
		if frozen, err = s.tree.group.State(); err != nil {
			return Message{}, fmt.Errorf("read the state of session %s: %w", s.setup.Name, err)
		}
	}
	fenced, _ := s.guard.state()
	return Message{Phase: PhaseDone, State: &state, Frozen: frozen, Fenced: fenced}, nil
}

func (s *session) stop() error {
	// A capture under way must end first. One for a dead worker ends soon.
	s.work.Lock()
	defer s.work.Unlock()
	s.clients.silent.Store(true)
	s.recorder.stopped()
	if err := s.points.at(failpoint.ShimKills); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := s.tree.kill(ctx); err != nil {
		return err
	}
	return s.points.at(failpoint.ShimKilled)
}
