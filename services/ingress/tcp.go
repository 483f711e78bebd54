package ingress

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// TCPServer carries the connections of one listener to one port of a session.
type TCPServer struct {
	Options
	Target Target
	Told   bool // each connection begins with a PROXY header, of a load balancer
	Tells  bool // each connection to the session begins with one
	// UID is that of the session, if no other one may be reached that has come to have its name.
	UID schemas.UID
	// Most is how many connections are taken at a time; further ones wait. No limit if 0.
	Most int64

	wakes    *wakes
	policies *policies
	callers  *callers

	mu     sync.Mutex // guards warned
	warned time.Time
}

// NewTCPServer makes a server for one port.
func NewTCPServer(o Options, t Target) *TCPServer {
	return &TCPServer{Options: o.withDefaults(), Target: t, policies: newPolicies(o.Policy), callers: newCallers()}
}

// Serve takes connections at l until ctx ends; those that are open then are cut off.
func (t *TCPServer) Serve(ctx context.Context, l net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	t.wakes = newWakes(ctx, t.Waker, t.Budgets.Wake)
	defer t.wakes.group.Wait()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	room := semaphore.NewWeighted(cmp.Or(t.Most, math.MaxInt64))
	g.Go(func() error {
		for {
			if room.Acquire(ctx, 1) != nil {
				return nil
			}
			conn, err := l.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return nil
			case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
				t.Log.Warn("no connection can be taken for now", "err", err)
				if pause(ctx, askAgain) != nil {
					return nil
				}
				room.Release(1)
				continue
			case err != nil:
				return fmt.Errorf("take connections at %s: %w", l.Addr(), err)
			}
			g.Go(func() error {
				defer room.Release(1)
				t.serve(ctx, conn)
				return nil
			})
		}
	})
	return g.Wait()
}

// client is who connected.
type client struct {
	net.Conn
	in   *bufio.Reader
	from net.Addr // of the client, as a load balancer says
}

// serve carries one connection.
func (t *TCPServer) serve(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { reset(conn) })
	defer stop()
	c, err := t.open(conn)
	if err == nil {
		err = t.carry(ctx, c)
	}
	if err != nil && ctx.Err() == nil {
		t.Log.Log(ctx, t.level(), "a connection failed", "from", conn.RemoteAddr().String(), "to", t.Target.String(), "err", err)
	}
	if err != nil {
		reset(conn)
	}
	conn.Close()
}

// warnEvery bounds the lines of the log that strangers cause.
const warnEvery = time.Minute

// level is that of a line about a failed connection: one a minute is a warning.
func (t *TCPServer) level() slog.Level {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.warned) < warnEvery {
		return slog.LevelDebug
	}
	t.warned = time.Now()
	return slog.LevelWarn
}

// open reads the PROXY header, if there is to be one.
func (t *TCPServer) open(conn net.Conn) (*client, error) {
	if !t.Told {
		return &client{conn, bufio.NewReader(conn), conn.RemoteAddr()}, nil
	}
	told := proxyproto.NewConn(conn, proxyproto.WithPolicy(proxyproto.REQUIRE), proxyproto.SetReadHeaderTimeout(headerLimit))
	if _, err := told.Read(nil); err != nil {
		return nil, fmt.Errorf("read its PROXY header: %w", err)
	}
	return &client{conn, bufio.NewReader(told), told.RemoteAddr()}, nil
}

// errProbe: the connection was closed before anything came, while the session was suspended.
var errProbe = errors.New("a probe")

func (t *TCPServer) carry(ctx context.Context, c *client) error {
	from, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	grant, err := t.Authorizer.Authorize(ctx, Ask{Target: t.Target, Class: TCP, From: from})
	if err != nil {
		return err
	}
	why := Why{Class: TCP, Port: t.Target.Port, Caller: grant.Caller}
	if t.Told {
		why.Caller += " for " + c.from.String()
	}
	began, then := time.Now(), past{}
	up, release, err := t.reach(ctx, c, &why, &then)
	if errors.Is(err, errProbe) {
		if why.Class == Reconnect { // it would have
			t.callers.ended(who(c.from), past{ended: time.Now(), woke: true})
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	defer up.Close()
	if t.Tells {
		if _, err := proxyproto.HeaderProxyFromAddrs(2, c.from, c.LocalAddr()).WriteTo(up); err != nil {
			return fmt.Errorf("say who connects: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { reset(up) })
	defer stop()
	then.sent = splice(c, up)
	then.ended = time.Now()
	then.lasted = then.ended.Sub(began)
	t.callers.ended(who(c.from), then)
	return nil
}

// reach connects to the session, which it has resumed and holds. It completes why, and notes whether the session was
// resumed for the connection.
func (t *TCPServer) reach(ctx context.Context, c *client, why *Why, then *past) (up net.Conn, release func(), err error) {
	n, policy := t.Target.Name, t.policies.look(ctx, t.Waker, t.Target)
	last, insists := t.callers.arrived(who(c.from), time.Now())
	for end := time.Now().Add(t.Budgets.Wake + t.Budgets.Connect); ; {
		w, ok := t.wakes.running(n)
		if !then.woke {
			asleep := !ok && t.asleep(ctx)
			if why.Class = TCP; cameInVain(last, !asleep, insists, time.Now()) {
				why.Class = Reconnect
			}
			then.woke = asleep
		}
		if !ok {
			if w, err = t.has(ctx, c, *why, policy); err != nil {
				return nil, nil, err
			}
		}
		if t.UID != "" && w.view.UID != t.UID {
			return nil, nil, errAnother(n)
		}
		leave, unhold := w.enter(), t.hold(*why, UseOf(why.Class, policy))
		up, err = connect(ctx, t.wakes, t.Dialer, n, t.Target.Port, t.Budgets.Connect)
		if err == nil {
			return up, func() { unhold(); leave() }, nil
		}
		unhold()
		leave()
		if !errors.Is(err, errAsleep) || time.Now().After(end) || pause(ctx, askAgain) != nil {
			return nil, nil, err
		}
	}
}

// asleep reports whether the session is known not to run.
func (t *TCPServer) asleep(ctx context.Context) bool {
	v, err := t.Waker.Look(ctx, t.Target)
	return err == nil && v.State != schemas.Running
}

// hold says that the session is used, if the connection is use.
func (t *TCPServer) hold(why Why, use Use) (release func()) {
	if !use.Lease {
		return func() {}
	}
	return t.Leaser.Hold(t.Target.Name, why, use.Fresh)
}

// has has the session run, if the policy says so; errProbe if this connection doesn't resume it.
func (t *TCPServer) has(ctx context.Context, c *client, why Why, policy Policy) (*wake, error) {
	if policy[why.Class] != Wake {
		v, err := t.Waker.Look(ctx, t.Target)
		if err == nil && v.State != schemas.Running {
			err = errProbe
		}
		if err != nil {
			return nil, err
		}
		return t.wakes.seen(t.Target.Name, v), nil
	}
	if err := c.SetReadDeadline(time.Now().Add(t.Budgets.Probe)); err != nil {
		return nil, errProbe
	}
	if _, err := c.in.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errProbe
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return nil, errProbe
	}
	return t.wakes.await(ctx, t.Target.Name, why)
}

// splice copies both ways until both have ended, and gives how much came of the client. The end of one direction leaves
// the other open; a failure ends both, so that neither side takes a part for the whole.
func splice(c *client, up net.Conn) (sent int64) {
	var both sync.WaitGroup
	one := func(to net.Conn, from io.Reader) int64 {
		n, err := io.Copy(to, from)
		if err != nil || closeWrite(to) != nil {
			reset(c.Conn)
			reset(up)
		}
		return n
	}
	both.Go(func() { sent = one(up, c.in) })
	both.Go(func() { one(c.Conn, up) })
	both.Wait()
	return sent
}

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

// reset closes a connection so that its other end gets an error.
func reset(c net.Conn) {
	switch c := c.(type) {
	case interface{ Abort() }:
		c.Abort()
	case *net.TCPConn:
		_ = c.SetLinger(0) // it may have ended, as the close says
	}
	c.Close()
}
