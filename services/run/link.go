package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/services/embedded"
)

// server is where the parts and their clients find NATS.
type server struct {
	url             string       // the address that everybody may know
	secure          string       // the address for clients with credentials
	system, clients string       // files of credentials
	inProcess       nats.Option  // connects the parts of this process; nil for a server that isn't ours
	broken          <-chan error // nil for a server that isn't ours
	intake          <-chan bool  // as Options.Taken of the scheduler
	know            knows        // has the server drop activity of strangers for other names
	stop            func()
}

// reach starts the embedded server, or takes the one that was named.
func (c NATS) reach(ctx context.Context, data *datadir.Dir, log *slog.Logger) (server, error) {
	if c.URL != "" {
		return server{url: c.URL, secure: c.URL, system: c.Creds, clients: c.Creds, stop: func() {}}, nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return server{}, usagef("--listen %q: want host:port", c.Listen)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 0 || number > 65535 {
		return server{}, usagef("--listen %q: want a port from 0 to 65535", c.Listen)
	}
	creds := data.Join("creds")
	srv, err := embedded.Start(ctx, embedded.Options{StoreDir: data.Join("nats"), CredsDir: creds, Host: host, Port: number, Log: log})
	if err != nil {
		return server{}, err
	}
	return server{
		url: srv.URL(), secure: srv.SecureURL(), system: embedded.CredsFile(creds, embedded.UserSystem), clients: embedded.CredsFile(creds, embedded.UserClient),
		inProcess: srv.InProcess(), broken: srv.Broken(), intake: srv.Intake(), know: srv.Know, stop: srv.Shutdown,
	}, nil
}

// connect makes the connection of this process's parts.
func (s server) connect(ctx context.Context, name string, log *slog.Logger, opts ...nats.Option) (*nats.Conn, error) {
	if s.inProcess != nil {
		return natsconn.Connect(ctx, s.url, "", name, append(opts, s.inProcess)...)
	}
	return connect(ctx, NATS{URL: s.url, Creds: s.system}, name, log, opts...)
}

// connect makes a connection to a server that isn't in this process, and warns if others
// may read it.
func connect(ctx context.Context, to NATS, name string, log *slog.Logger, opts ...nats.Option) (*nats.Conn, error) {
	nc, err := natsconn.Connect(ctx, to.URL, to.Creds, name, opts...)
	if err != nil {
		return nil, err
	}
	if _, err := nc.TLSConnectionState(); err != nil {
		log.Warn("the connection to NATS has no TLS: who can read or forge packets on the way reads terminals and commands of sessions and can give orders; `diapause nats-config` writes a configuration with TLS", "server", nc.ConnectedUrlRedacted())
	}
	return nc, nil
}

// link is the connection of a process, and what its parts share on it.
type link struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	names    stream.Names
	leases   *lease.Store
	records  *statekv.Store
	policies *policykv.Cache
	orders   *hostkv.Cache
	points   *failpoint.Set
	intake   <-chan bool // as Options.Taken of the scheduler
	know     knows       // of the embedded server; nil for another
}

// knows is Know of the embedded server.
type knows func(known func(schemas.Name) bool, missed func(schemas.Name))

// link makes the streams and buckets, or finds them if another process has to make them.
func (h hostProcess) link(ctx context.Context, nc *nats.Conn) (l link, err error) {
	if l, err = newLink(nc); err != nil {
		return l, err
	}
	if !h.alone {
		if err := stream.Ensure(ctx, l.js, l.names, 0); err != nil {
			return l, err
		}
	}
	if l.points, err = failpoints(h.Log); err != nil {
		return l, err
	}
	return l, l.open(ctx, h.gauges, h.Log)
}

func newLink(nc *nats.Conn) (link, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return link{}, fmt.Errorf("use JetStream: %w", err)
	}
	return link{nc: nc, js: js, names: stream.NamesWith("")}, nil
}

// joined opens what another process has made on the server, once no recovery of the fleet is under way.
func joined(ctx context.Context, nc *nats.Conn, p Process, m gauges) (l link, err error) {
	if l, err = newLink(nc); err != nil {
		return l, err
	}
	if err := l.find(ctx); err != nil {
		return l, err
	}
	if err := recovered(ctx, l.js, l.names, p.Out); err != nil {
		return l, err
	}
	if err := l.open(ctx, m, p.Log); err != nil {
		return l, err
	}
	l.orders.Load(ctx)
	return l, nil
}

// open opens what is on the connection; its swaps are counted.
func (l *link) open(ctx context.Context, m gauges, log *slog.Logger) (err error) {
	if l.leases == nil {
		if err := l.find(ctx); err != nil {
			return err
		}
	}
	if l.records, err = statekv.Open(ctx, l.js, l.names); err != nil {
		return err
	}
	l.records.Swapped = m.Swapped
	policies, err := policykv.Open(ctx, l.js, l.names)
	if err != nil {
		return err
	}
	l.policies = policykv.NewCache(policies, log)
	l.orders = hostkv.NewCache(l.js, l.names, log)
	return l.policies.Load(ctx)
}

// find gives the leases of hosts, which are there where a `diapause up` has made all.
func (l *link) find(ctx context.Context) (err error) {
	l.leases, err = lease.Open(ctx, l.js, l.names)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return schemas.WithHint(err, "`diapause nats-streams` makes it, and so does a `diapause up` on this NATS server")
	}
	return err
}

// addresses are where programs in sessions find NATS: with no secret in them.
func addresses(nc *nats.Conn) string {
	var out []string
	for _, server := range nc.Opts.Servers {
		if u, err := url.Parse(server); err == nil && u.Host != "" {
			out = append(out, u.Scheme+"://"+u.Host)
		}
	}
	return strings.Join(out, ",")
}

// failpoints reads what is to go wrong, in a test of the whole, and logs it.
func failpoints(log *slog.Logger) (*failpoint.Set, error) {
	text := os.Getenv(failpoint.Variable)
	points, err := failpoint.Parse(text)
	if err != nil {
		return nil, usagef("%s: %v", failpoint.Variable, err)
	}
	if points != nil {
		log.Warn("FAILPOINTS ARE ON: this process fails on purpose; unset "+failpoint.Variable+" unless it is a test", "failpoints", text)
	}
	return points, nil
}
