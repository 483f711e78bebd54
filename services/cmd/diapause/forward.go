package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/publish"
)

const forwardHelp = `Reach ports of a session from this machine: what connects to the local address is
connected to the port inside the session, in whichever network the session has
(--network private, host or none). LOCAL is the local port, that of the session if not
given, and 0 for one that is free.

A connection resumes a suspended session, and counts as use while it is open. If the session
is suspended or stopped all the same, the connection is reset, and the next one resumes it.
It ends with Ctrl-C, or when the session is removed.`

func forwardCommand(c *client) *cobra.Command {
	f := forwarder{client: c}
	address := "127.0.0.1"
	cmd := &cobra.Command{
		Use: "forward NAME [LOCAL:]PORT...", Short: "Reach ports of a session from this machine", Long: forwardHelp,
		Example: "  diapause forward work 8080\n  diapause forward work 9000:80 9001:443",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.name = args[0]
			all, err := parsePorts(args[1:])
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), address, all)
		},
	}
	cmd.Flags().StringVar(&address, "address", address, "local `ADDR` to listen at; who can reach it can use the session's ports")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one object a line for each port, and to stderr for each connection that fails")
	return cmd
}

// portPair is a port here and the session's that it leads to.
type portPair struct{ local, port uint16 }

func parsePorts(words []string) ([]portPair, error) {
	var all []portPair
	for _, word := range words {
		local, port, both := strings.Cut(word, ":")
		if !both {
			local, port = word, word
		}
		l, err1 := strconv.ParseUint(local, 10, 16)
		p, err2 := strconv.ParseUint(port, 10, 16)
		if err1 != nil || err2 != nil || p == 0 {
			return nil, usagef("forward %q: want PORT or LOCAL:PORT, e.g. 8080 or 9000:80", word)
		}
		all = append(all, portPair{uint16(l), uint16(p)})
	}
	return all, nil
}

// ofTree refuses what only containers have, and adds the ports that a process tree publishes.
func (f runFlags) ofTree(s *schemas.Spec) error {
	if err := f.container.refuse(); err != nil {
		return err
	}
	if len(f.publish) == 0 {
		return nil
	}
	if s.Network != schemas.NetworkPrivate {
		return usagef("--publish is for --network private, or with --image").WithHint("with --network host the session's ports are this host's")
	}
	if _, err := publish.Parse(f.publish); err != nil {
		return usagef("--publish: %v", err)
	}
	s.Publish = f.publish
	return nil
}

// forwarder carries connections to one session.
type forwarder struct {
	client *client
	name   string
	asJSON bool

	mu  sync.Mutex
	api *events.API // nil before the first connection

	ways direct.Ways // that connections go
}

// forwarded is what forward --json prints of a port.
type forwarded struct {
	Session string `json:"session"`
	Address string `json:"address"` // where connections are taken
	Port    uint16 `json:"port"`    // of the session
}

// run listens until ctx ends or the session is gone.
func (f *forwarder) run(ctx context.Context, address string, all []portPair) error {
	defer f.close()
	var v schemas.View
	if err := f.client.call(ctx, "show", schemas.Request{Name: f.name}, &v); err != nil {
		return err
	}
	listeners, err := listenAll(address, all)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() {
		for _, l := range listeners {
			l.Close()
		}
	})
	defer stop()
	for i, l := range listeners {
		port := all[i].port
		if f.asJSON {
			err = printLine(forwarded{v.Name, l.Addr().String(), port})
		} else {
			_, err = fmt.Fprintf(printed, "forwarding %s to port %d of session %s\n", l.Addr(), port, v.Name)
		}
		if err != nil {
			return fmt.Errorf("print the address: %w", err)
		}
		g.Go(func() error { return f.serve(ctx, g, l, port) })
	}
	return g.Wait() // an interrupt is how it ends
}

func listenAll(address string, all []portPair) ([]*net.TCPListener, error) {
	var listeners []*net.TCPListener
	for _, p := range all {
		l, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(p.local)))
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return nil, schemas.WithHint(fmt.Errorf("forward port %d: %w", p.port, err), "choose another local port by LOCAL:%d, 0 for one that is free", p.port)
		}
		listeners = append(listeners, l.(*net.TCPListener))
	}
	return listeners, nil
}

// serve takes connections until the listener is closed.
func (f *forwarder) serve(ctx context.Context, g *errgroup.Group, l *net.TCPListener, port uint16) error {
	for {
		local, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take connections at %s: %w", l.Addr(), err)
		}
		g.Go(func() error { return f.carry(ctx, local, port) })
	}
}

// carry carries one connection. Only the end of the session is an error.
func (f *forwarder) carry(ctx context.Context, local *net.TCPConn, port uint16) error {
	opened := false
	err := f.reach(ctx, port, func() (net.Conn, error) {
		opened = true
		return local, nil
	})
	if opened {
		return nil // its user has seen how it ended
	}
	_ = local.SetLinger(0) // so that its user gets an error, and no empty answer
	local.Close()
	var api *schemas.APIError
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &api) && api.Code == schemas.CodeNoSession:
		return err
	}
	f.complain(fmt.Errorf("connection from %s to port %d: %w", local.RemoteAddr(), port, err))
	return nil
}

// reachAttempts is how often a session that runs may fail to take a connection.
const reachAttempts = 3

// reach has the session run, and connects to it. A session that is suspended between the two
// is resumed again.
func (f *forwarder) reach(ctx context.Context, port uint16, open func() (net.Conn, error)) error {
	opened := false
	once := func() (net.Conn, error) { opened = true; return open() }
	for left := reachAttempts; ; {
		running, err := f.once(ctx, port, once)
		var refused attach.RefusedError
		if err == nil || opened || ctx.Err() != nil || definite(err) || errors.As(err, &refused) {
			return err
		}
		if left--; running && left <= 0 || left <= -reachAttempts {
			return err
		}
		select {
		case <-time.After(deliverPause):
		case <-ctx.Done():
		}
	}
}

// once tries once. running says that the session was there.
func (f *forwarder) once(ctx context.Context, port uint16, open func() (net.Conn, error)) (running bool, err error) {
	api, err := f.connected(ctx)
	if err != nil {
		return false, err
	}
	var v schemas.View
	if err := f.client.callOn(ctx, api, "ensure", schemas.Request{Name: f.name}, &v); err != nil {
		return false, err
	}
	try, taken := f.ways.Before(v.Host, time.Now())
	conn, err := dialHost(ctx, api, v, attach.Hello{Name: f.name, Presence: true, Input: true, Forward: true, Direct: try})
	if err != nil {
		return false, err
	}
	defer abortAtEnd(ctx, conn)()
	stop := func() bool { return true }
	defer func() { stop() }()
	dial := func(o attach.Offer) (net.Conn, error) {
		conn, err := direct.Dial(ctx, o, f.name, port)
		taken = f.ways.After(v.Host, time.Now(), o.Address, err)
		if err != nil {
			return nil, err
		}
		stop = abortAtEnd(ctx, conn)
		return conn, nil
	}
	return true, attach.ForwardDirect(conn, port, dial, func() (net.Conn, error) {
		if f.ways.Changed(taken) {
			f.tell(taken)
		}
		return open()
	})
}

// abortAtEnd aborts a connection when ctx ends before stop is called.
func abortAtEnd(ctx context.Context, conn *tunnel.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = conn.Abort("interrupted") }) // else it has ended
}

// tell says which way connections go from now on.
func (f *forwarder) tell(w direct.Way) {
	w.Session = f.name
	if f.asJSON {
		_ = json.NewEncoder(complained).Encode(w) // stderr is closed, then
		return
	}
	_, _ = fmt.Fprintln(complained, w) // likewise
}

// connected gives the connection to the server, a new one if that is lost: the server may be
// elsewhere by now.
func (f *forwarder) connected(ctx context.Context) (*events.API, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.api != nil && f.api.Conn().IsConnected() {
		return f.api, nil
	}
	if f.api != nil {
		f.api.Close()
		f.api = nil
	}
	api, err := f.client.connect(ctx)
	if err == nil {
		f.api = api
	}
	return api, err
}

func (f *forwarder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.api != nil {
		f.api.Close()
	}
}

// complain tells of a connection that failed.
func (f *forwarder) complain(err error) {
	e := failure(err)
	e.Text, e.Session = err.Error(), f.name
	if f.asJSON {
		_ = json.NewEncoder(complained).Encode(e) // stderr is closed, then
		return
	}
	report(e, answers{})
}
