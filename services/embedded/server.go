package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/strangers"
	"github.com/diapause/diapause/services/authority"
)

// DefaultHost is where the server listens when nothing else is asked for.
const DefaultHost = "127.0.0.1"

// edgeUser is what a client without credentials becomes.
const edgeUser = "edge"

// startLimit is how long a start may take; a large store takes seconds to read.
const startLimit = 2 * time.Minute

// authTimeout is generous, since captures keep the machine busy at times.
const authTimeout = 10 * time.Second

// Options say where the server keeps its data and listens.
type Options struct {
	StoreDir string // the streams; made with mode 0700
	CredsDir string // the seeds of the users, made on the first start; mode 0700
	Host     string // an IP address or a name; DefaultHost if empty
	Port     int    // for clients without credentials; 0 takes any free port
	// AllowRemote permits a Host that other machines reach, which may then report activity.
	AllowRemote bool
	Log         *slog.Logger // the server's warnings and errors; discarded if nil
}

// Server is a running NATS server.
type Server struct {
	url, secureURL string
	users          *accept
	log            *bridge
	reserve        reserve
	broken         chan error // one place
	intake         <-chan bool
	known          atomic.Pointer[sessions] // of Know; nil before it is called
	ledger         strangers.Ledger

	mu   sync.RWMutex
	nats *server.Server // nil while it is started again

	close   func()         // of the gates
	serving sync.WaitGroup // the gates
}

// What a caller of Start can act on; match with errors.Is.
var (
	// ErrInUse: another process listens at the address.
	ErrInUse = errors.New("the address is in use")
	// ErrNotLoopback: the address is reachable from other machines, and that
	// wasn't allowed.
	ErrNotLoopback = errors.New("the address is not on loopback")
	// ErrFull: the disk of the streams is full.
	ErrFull = errors.New("the disk is full, and what happens can't be recorded")
)

// Start starts the server and returns when it takes connections and JetStream
// has read its store, or when ctx ends. Nothing of it is left running after an
// error.
func Start(ctx context.Context, o Options) (*Server, error) {
	o.Host = cmp.Or(o.Host, DefaultHost)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if err := checkLoopback(ctx, o); err != nil {
		return nil, err
	}
	doors, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	s, err := run(ctx, o)
	if err == nil {
		err = keepPort(o.CredsDir, doors.secure)
	}
	if err != nil {
		if s != nil {
			stop(s.nats)
		}
		doors.close()
		return nil, err
	}
	s.url, s.secureURL = o.url(doors.plain), o.url(doors.secure)
	s.admit(doors, o)
	return s, nil
}

// run starts the server, without a listener.
func run(ctx context.Context, o Options) (*Server, error) {
	users, err := prepare(o)
	if err != nil {
		return nil, fmt.Errorf("configure the NATS server: %w", err)
	}
	s := &Server{users: users, log: &bridge{to: o.Log, broken: make(chan error, 1), lost: make(chan struct{}, 1)}, broken: make(chan error, 1), reserve: newReserve(o.StoreDir)}
	s.nats, err = s.launch(ctx, o)
	return s, err
}

// launch starts a server on the files of the options.
func (s *Server) launch(ctx context.Context, o Options) (*server.Server, error) {
	conf, err := configure(o, s.users)
	if err != nil {
		return nil, fmt.Errorf("configure the NATS server: %w", err)
	}
	ns, err := server.NewServer(conf)
	if err == nil {
		err = s.users.enlist(ns)
	}
	if err != nil {
		return nil, fmt.Errorf("start the NATS server: %w", err)
	}
	ns.SetLoggerV2(s.log, false, false, false)
	ns.Start()
	slowClock()
	if err := ready(ctx, ns, s.log); err != nil {
		stop(ns)
		return nil, fmt.Errorf("start the NATS server: %w", err)
	}
	return ns, nil
}

// prepare makes the directories and the keys of the users.
func prepare(o Options) (*accept, error) {
	for _, dir := range []string{o.StoreDir, o.CredsDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return newAccept(o.CredsDir)
}

// InProcess has a connection to URL, without a file of credentials, cross no network, and
// gives it the rights of UserSystem. It is for the process that started the server.
func (s *Server) InProcess() nats.Option {
	return func(o *nats.Options) error {
		o.InProcessServer, o.User, o.Password = s, inProcess, s.users.password
		return nil
	}
}

// URL is where clients without credentials connect, "nats://host:port".
func (s *Server) URL() string { return s.url }

// SecureURL is where clients with credentials connect, "nats://host:port": by TLS.
func (s *Server) SecureURL() string { return s.secureURL }

// Broken delivers an error, once, after which no stream takes a write until there is room on the
// disk and the server is started again.
func (s *Server) Broken() <-chan error { return s.broken }

// Intake delivers false when activity without credentials isn't taken any more, since the disk
// is nearly full, and true when it is again, or after the server has dropped some of it: what was
// published before may be lost. Of several it delivers the last. It is for one reader.
func (s *Server) Intake() <-chan bool { return s.intake }

// Shutdown stops the server and returns when its files are closed. A second call
// does nothing.
func (s *Server) Shutdown() {
	s.close()
	s.serving.Wait()
	stop(s.replace(nil))
}

// storeLimit is above what any machine's streams come to, in bytes.
const storeLimit = 1 << 50

// configure makes the keys and directories and says all that the server needs.
func configure(o Options, users *accept) (*server.Options, error) {
	conf := &server.Options{}
	text := strings.NewReplacer("EDGE_CONNECTIONS", strconv.Itoa(allPlain),
		"EDGE_PAYLOAD", strconv.Itoa(edgePayload)).Replace(accountsConfig)
	if err := conf.ProcessConfigString(text); err != nil {
		return nil, err
	}
	if err := secure(conf, o.CredsDir, o.Host); err != nil {
		return nil, err
	}
	conf.CustomClientAuthentication, conf.AlwaysEnableNonce = users, true
	// This has the server say that credentials aren't needed; accept decides.
	conf.Users = []*server.User{{Username: edgeUser}}
	conf.NoAuthUser = edgeUser
	conf.ServerName = "diapause"
	conf.DontListen = true // the gates do
	conf.StoreDir, conf.SyncAlways = o.StoreDir, true
	// By itself the server would take three quarters of what is free now, and
	// refuse streams whose bound is above that: a small disk is no reason not to
	// start, and a full one is noticed when it is.
	conf.JetStreamMaxStore = storeLimit
	conf.MaxConn = allConnections
	conf.AuthTimeout = authTimeout.Seconds()
	conf.NoSigs = true // signals belong to the process around it
	return conf, nil
}

// secure has the server speak TLS with those who ask for it, by a certificate of the
// directory of credentials.
func secure(conf *server.Options, credsDir, host string) (err error) {
	if err := authority.Certify(credsDir, credsDir, append(loopbackNames(), host), time.Now()); err != nil {
		return err
	}
	conf.TLSConfig, err = server.GenTLSConfig(&server.TLSConfigOpts{
		CertFile: filepath.Join(credsDir, authority.ServerFile), KeyFile: filepath.Join(credsDir, authority.ServerKeyFile),
	})
	conf.TLS, conf.TLSTimeout = true, authTimeout.Seconds()
	return err
}

// loopbackNames are the names that clients of this machine may use.
func loopbackNames() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// ready waits until the server takes connections.
func ready(ctx context.Context, ns *server.Server, log *bridge) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for !ns.ReadyForConnections(10 * time.Millisecond) {
		if err := log.failure(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("it did not get ready: %w", ctx.Err())
		}
	}
	return log.failure()
}

// checkAddress says before anything is written why the server can't listen.
func checkLoopback(ctx context.Context, o Options) error {
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, o.Host)
	if err != nil {
		return fmt.Errorf("find the address of %s: %w", o.Host, err)
	}
	for _, ip := range ips {
		if !ip.IP.IsLoopback() && !o.AllowRemote {
			return fmt.Errorf("listen on %s: %w: other machines could reach it, unencrypted; listen on 127.0.0.1, or run NATS yourself and give its address with --nats", o.Host, ErrNotLoopback)
		}
	}
	return nil
}
