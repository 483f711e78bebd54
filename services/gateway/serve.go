package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Address is where a gateway listens if nothing is said.
const Address = "127.0.0.1:4280"

// The bounds of a connection. Requests may take long, so that nothing bounds the whole of an answer: streams
// have a deadline for each write.
const (
	headerWait = 10 * time.Second
	maxHeader  = 32 << 10
	// readHeader is as much of a header as is read: of one with more net/http answers by itself, in plain text.
	readHeader = 2 * maxHeader
	// idleWait is longer than the 600 s of usual load balancers, so that they close first.
	idleWait     = 610 * time.Second
	shutdownWait = 5 * time.Second
)

// ListenOptions is where a gateway listens.
type ListenOptions struct {
	Address string      // host:port
	TLS     *tls.Config // none if nil
	// Plain and PlainAt allow together to listen beyond loopback without TLS, where tokens can be read on the way: the one
	// is what a command line says, the other what this machine's environment says: the same address.
	Plain   bool
	PlainAt string
	Log     *slog.Logger // of connections that aren't taken; discarded if nil
}

// PlainVariable is the environment variable that has PlainAt.
const PlainVariable = "DIAPAUSE_PLAIN_BEYOND_LOOPBACK"

// Check says what can't be listened at.
func (o ListenOptions) Check() error {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fmt.Errorf("listen at %q: want host:port", o.Address)
	}
	if o.TLS != nil || loopback(host) || o.Plain && o.PlainAt == o.Address {
		return nil
	}
	hint := fmt.Sprintf("use `--tls self`, or --tls-cert and --tls-key; on a network of your own say it twice: --plain-beyond-loopback and %s=%s", PlainVariable, o.Address)
	if o.Plain && o.PlainAt != "" {
		return schemas.WithHint(fmt.Errorf("listen at %s without TLS: %s names %q", o.Address, PlainVariable, o.PlainAt), "%s", hint)
	}
	return schemas.WithHint(fmt.Errorf("listen at %s without TLS: tokens could be read on the way", o.Address), "%s", hint)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// Listen opens the listener.
func Listen(ctx context.Context, o ListenOptions) (net.Listener, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", err)
	}
	l = bounded(l, o.Log)
	if o.TLS != nil {
		l = tls.NewListener(l, o.TLS)
	}
	return l, nil
}

// Serve answers on a listener until ctx ends, and closes it. Requests under way have some seconds then;
// streams end at once. It is called once.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	defer func() { _ = g.client.Close() }() // it has said nothing that could be left
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g.streams.until(ctx)
	srv := &http.Server{
		Handler: g.handler, ReadHeaderTimeout: headerWait, IdleTimeout: idleWait, MaxHeaderBytes: readHeader,
		BaseContext: func(net.Listener) context.Context { return requests },
		ConnContext: withUser,
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelDebug), // of what clients do
		Protocols:   new(http.Protocols),
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true) // of gRPC to ports of sessions
	if g.doors != nil {
		defer g.doors.proxy.Close()
	}
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
		defer cancel()
		err := srv.Shutdown(wait)
		end()
		stopped <- errors.Join(err, srv.Close())
	})()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving HTTP: %w", err)
	}
	return nil
}
