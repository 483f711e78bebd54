package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/diapause/diapause/services/gate"
)

// doors are the listeners of a server.
type doors struct {
	plain, secure net.Listener
}

// open listens where the options say, and for TLS on the port of the last start, if that is
// free: clients that were connected find it again.
func open(ctx context.Context, o Options) (d doors, err error) {
	if d.plain, err = listen(ctx, o.Host, o.Port); err != nil {
		return d, err
	}
	if d.secure, err = listen(ctx, o.Host, lastPort(o.CredsDir)); err != nil {
		d.secure, err = listen(ctx, o.Host, 0)
	}
	if err != nil {
		d.plain.Close()
	}
	return d, err
}

func (d doors) close() {
	d.plain.Close()
	d.secure.Close()
}

// portFile holds the port for TLS, below the directory of credentials.
const portFile = "tls/port"

// lastPort is the port for TLS of the last start; 0 if there was none.
func lastPort(credsDir string) int {
	text, err := os.ReadFile(filepath.Join(credsDir, portFile))
	if err != nil {
		return 0
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

func keepPort(credsDir string, l net.Listener) error {
	return os.WriteFile(filepath.Join(credsDir, portFile), fmt.Appendln(nil, portOf(l)), 0o600)
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: %w by another process: stop it (maybe another `diapause up` or a NATS server), or choose another address with --listen", address, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// url is where clients find a listener.
func (o Options) url(l net.Listener) string {
	return "nats://" + net.JoinHostPort(o.Host, strconv.Itoa(portOf(l)))
}

// What each user of this machine, and all of them, may have open and send. A message of
// activity takes some 100 bytes, and is synced to the disk: a stream takes some thousands a
// second, and what comes faster the server drops without a word.
const (
	perUser        = 512 // connections; what runs in sessions has half of allPlain together
	allPlain       = 2048
	allSecure      = 1024
	connectionRate = 32 << 10 // bytes a second
	userRate       = 64 << 10
)

// admit has gates carry connections to the server until Shutdown.
func (s *Server) admit(d doors, o Options) {
	ctx, cancel := context.WithCancel(context.Background())
	s.close = cancel
	plain := gate.New(d.plain, gate.Options{
		Plain: true, PerUser: perUser, PerInside: allPlain / 2, All: allPlain, ConnectionRate: connectionRate, UserRate: userRate,
		Change: s.change, Largest: edgePayload, Connect: s.InProcessConn, Log: o.Log,
	})
	secure := gate.New(d.secure, gate.Options{TLS: true, PerUser: perUser, All: allSecure, Connect: s.InProcessConn, Log: o.Log})
	r := newRoom(o.StoreDir, plain.Refuse, s.reserve.keep, o.Log)
	r.lost = s.log.lost
	s.intake = r.intake
	r.check()
	for _, g := range []*gate.Gate{plain, secure} {
		s.serving.Go(func() { _ = g.Serve(ctx) }) // which only ends with ctx
	}
	s.serving.Go(func() { r.watch(ctx) })
	s.serving.Go(func() { s.revive(ctx, o) })
}
