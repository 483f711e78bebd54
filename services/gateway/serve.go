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
	// idleWait is longer than the 600 s of usual load balancers, so that they close first.
	idleWait     = 610 * time.Second
	shutdownWait = 5 * time.Second
)

// ListenOptions is where a gateway listens.
type ListenOptions struct {
	Address  string // host:port
	CertFile string // of TLS; none if empty
	KeyFile  string
	// Plain allows to listen beyond loopback without TLS: tokens can be read on the way then.
	Plain bool
}

// Check says what can't be listened at.
func (o ListenOptions) Check() error {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fmt.Errorf("listen at %q: want host:port", o.Address)
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("TLS takes a certificate and its key")
	}
	if o.CertFile == "" && !o.Plain && !loopback(host) {
		return schemas.WithHint(fmt.Errorf("listen at %s without TLS: tokens could be read on the way", o.Address),
			"name a certificate and its key with --tls-cert and --tls-key; --plain-beyond-loopback is for a network of your own")
	}
	return nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// Listen opens the listener. Certificates are read once.
func Listen(ctx context.Context, o ListenOptions) (net.Listener, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var config *tls.Config
	if o.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
		config = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
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
		Handler: g.handler, ReadHeaderTimeout: headerWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return requests },
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
