package gate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/diapause/diapause/events/accept"
)

// Options say what a Gate lets through.
type Options struct {
	Connect func() (net.Conn, error) // a new connection to the server
	Plain   bool                     // hide the server's offer of TLS
	TLS     bool                     // refuse clients that don't take it
	PerUser int                      // connections of one user at a time
	// PerInside bounds the connections of all sessions' programs, which the host's root passes on (see inside.go); none are
	// told apart from root's if 0.
	PerInside int
	Elsewhere int // connections from all other machines; PerUser if 0
	All       int // connections of all users
	// Rates in bytes a second that clients may send, on one connection and as one user over
	// all connections. A second's worth may come at once. No limit if 0.
	ConnectionRate, UserRate int
	// Change, if given, may change each message; it is called by many goroutines at once. Largest bounds a
	// message then, in bytes: the server refuses more.
	Change  func(*Message)
	Largest int
	Log     *slog.Logger
}

// Gate carries connections to a server.
type Gate struct {
	o      Options
	listen net.Listener
	owner  func(c net.Conn) (UID, error)

	mu    sync.Mutex // guards what is below
	users map[who]*user
	open  map[net.Conn]bool
	shut  error     // why no connection is taken; nil if they are
	said  time.Time // when a refusal was logged last
	quiet int       // refusals since
}

// user is one user that has connections.
type user struct {
	connections int
	rate        *rate.Limiter
}

// New makes a gate on a listener, which Serve closes.
func New(l net.Listener, o Options) *Gate {
	return &Gate{o: o, listen: l, owner: ownerOf, users: map[who]*user{}, open: map[net.Conn]bool{}}
}

func ownerOf(c net.Conn) (UID, error) {
	remote, ok := c.RemoteAddr().(*net.TCPAddr)
	local, also := c.LocalAddr().(*net.TCPAddr)
	if !ok || !also {
		return Unknown, fmt.Errorf("find the user of a connection from %s", c.RemoteAddr())
	}
	return owner(remote.AddrPort(), local.AddrPort())
}

// Serve takes connections until ctx ends, and returns when all are closed.
func (g *Gate) Serve(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, g.closeAll)
	defer stop()
	all.Go(func() error {
		accept.Each(ctx, g.listen.Accept,
			func(c net.Conn) { all.Go(func() error { g.carry(ctx, c); return nil }) },
			g.notTaken)
		return nil
	})
	return all.Wait()
}

// notTaken logs that a connection can't be taken, mostly since too many files are open, as refused does.
func (g *Gate) notTaken(err error) { g.refused(fmt.Errorf("take a connection: %w", err)) }

func (g *Gate) closeAll() {
	g.listen.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open {
		c.Close()
	}
}

// enter counts a connection, and says whose it is, or refuses it.
func (g *Gate) enter(ctx context.Context, c net.Conn) (_ *user, by string, err error) {
	uid, err := g.owner(c)
	if err != nil {
		g.o.Log.Debug("the user of a connection isn't known", "err", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget()
	w := g.whose(uid, c)
	u := g.users[w]
	if u == nil {
		u = &user{rate: limiter(g.o.UserRate)}
	}
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case g.shut != nil:
		return nil, "", g.shut
	case len(g.open) >= g.o.All:
		return nil, "", fmt.Errorf("%d connections are open", len(g.open))
	case u.connections >= g.most(w):
		return nil, "", fmt.Errorf("%s has %d connections open", w, u.connections)
	}
	u.connections++
	g.users[w], g.open[c] = u, true
	return u, sender(uid, c.RemoteAddr()), nil
}

// sender names who has a connection: its user, else the address of its machine.
func sender(uid UID, remote net.Addr) string {
	if uid != Unknown {
		return strconv.FormatUint(uint64(uid), 10)
	}
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return "unknown"
	}
	return host
}

func (g *Gate) leave(c net.Conn, u *user) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
	u.connections--
}

// Refuse has the gate take no connection, and ends those that are open, for a reason that is
// logged; nil has it take connections again. What the server was sent before, it has.
func (g *Gate) Refuse(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = why
	if why == nil {
		return
	}
	for c := range g.open {
		c.Close()
	}
}

// forget drops users without connections whose rate has recovered: a new connection is no
// way around it.
func (g *Gate) forget() {
	for w, u := range g.users {
		if u.connections == 0 && (u.rate.Limit() == rate.Inf || u.rate.Tokens() >= float64(u.rate.Burst())) {
			delete(g.users, w)
		}
	}
}

// refused logs a refusal, at most one in refusalsEvery.
func (g *Gate) refused(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.quiet++; time.Since(g.said) < refusalsEvery {
		return
	}
	g.o.Log.Warn("refused connections", "at", g.listen.Addr(), "refused", g.quiet, "last", err)
	g.said, g.quiet = time.Now(), 0
}

const refusalsEvery = time.Minute

// carry carries one connection to the server until one side ends it.
func (g *Gate) carry(ctx context.Context, c net.Conn) {
	defer c.Close()
	u, by, err := g.enter(ctx, c)
	if err != nil {
		g.refused(err)
		return
	}
	defer g.leave(c, u)
	server, err := g.o.Connect()
	if err != nil {
		g.refused(err)
		return
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() {
		defer closeBoth(c, server, cancel)
		_ = g.answers(c, server) // how a connection ends is for those at its ends
	})
	g.requests(server, c, by, &slow{ctx: ctx, from: c, own: limiter(g.o.ConnectionRate), all: u.rate})
	closeBoth(c, server, cancel)
	both.Wait()
}

func closeBoth(a, b io.Closer, cancel func()) {
	cancel()
	a.Close()
	b.Close()
}

// requests carries what the client says.
func (g *Gate) requests(server io.Writer, c net.Conn, by string, from io.Reader) {
	if g.o.TLS {
		first := make([]byte, 1)
		if _, err := io.ReadFull(from, first); err != nil {
			return
		}
		if first[0] != handshake {
			refuse(c)
			return
		}
		if _, err := server.Write(first); err != nil {
			return
		}
	}
	if g.o.Change != nil {
		f := filter{in: bufio.NewReaderSize(from, longestLine), server: server, by: by, change: g.o.Change, largest: uint64(g.o.Largest)}
		_ = f.carry()
		// A server that takes no more says why, and ends the connection then.
		_, _ = io.Copy(io.Discard, from)
		return
	}
	_, _ = io.Copy(server, from)
}

// refuse says why, and reads on until the client has heard it: to close a connection with
// something unread in it takes back what was said.
func refuse(c net.Conn) {
	if c.SetDeadline(time.Now().Add(refuseLimit)) != nil {
		return
	}
	_, _ = io.WriteString(c, wantsTLS)
	_, _ = io.CopyN(io.Discard, c, refuseRead) // until the client ends it
}

// The bounds of what a client that is refused may still send.
const (
	refuseLimit = 2 * time.Second
	refuseRead  = 1 << 20
)

// handshake is the first byte of a client that speaks TLS.
const handshake = 0x16

// wantsTLS is what a NATS server says to one that doesn't.
const wantsTLS = "-ERR 'Secure Connection - TLS Required'\r\n"

// answers carries what the server says.
func (g *Gate) answers(to io.Writer, server io.Reader) error {
	if !g.o.Plain {
		_, err := io.Copy(to, server)
		return err
	}
	from := bufio.NewReaderSize(server, maxHello)
	hello, err := plainHello(from)
	if err != nil {
		return err
	}
	if _, err := to.Write(hello); err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return err
}

// limiter gives one of a rate, in bytes a second; without limit if it is 0.
func limiter(bytes int) *rate.Limiter {
	if bytes == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(bytes), max(bytes, chunk))
}

// chunk is the most that is read at once where there is a limit, in bytes: the connections of
// a user take turns of so much.
const chunk = 4 << 10

// slow reads no faster than two limiters allow.
type slow struct {
	ctx      context.Context
	from     io.Reader
	own, all *rate.Limiter
}

func (s *slow) Read(p []byte) (int, error) {
	if s.own.Limit() != rate.Inf || s.all.Limit() != rate.Inf {
		p = p[:min(len(p), chunk)]
	}
	n, err := s.from.Read(p)
	for _, l := range []*rate.Limiter{s.own, s.all} {
		if waitErr := l.WaitN(s.ctx, n); waitErr != nil {
			return n, waitErr
		}
	}
	return n, err
}
