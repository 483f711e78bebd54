package direct

import (
	"container/list"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
)

// What is bounded of connections: those that have shown no grant yet wait, the others are admitted.
const (
	maxWaiting   = 256
	waitingLimit = 10 * time.Second
	maxAdmitted  = 256
)

// Options says where a host listens. The host's operator gave both addresses.
type Options struct {
	Advertise string // host:port that clients dial; with port 0 the one that is listened at
	Listen    string // host:port; Advertise if empty
	Log       *slog.Logger
}

// Server takes direct connections to a host.
type Server struct {
	listener    net.Listener
	config      *tls.Config
	address     string
	fingerprint string
	grants      grants
	now         func() time.Time
	patience    time.Duration // with those that wait
	log         *slog.Logger

	admitted atomic.Int64 // connections that have shown a grant
	refused  atomic.Int64 // connections that haven't, since it was logged last

	mu      sync.Mutex
	waiting *list.List // of net.Conn, the oldest first
}

// Listen starts to listen. Nothing is taken before Serve.
func Listen(o Options) (*Server, error) {
	at := o.Listen
	if at == "" {
		at = o.Advertise
	}
	host, port, err := net.SplitHostPort(o.Advertise)
	if err != nil {
		return nil, fmt.Errorf("advertise an address: %w", err)
	}
	certificate, err := selfSigned(time.Now())
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen for direct connections: %w", err)
	}
	if port == "0" {
		_, port, _ = net.SplitHostPort(l.Addr().String()) // of a listener it is well-formed
	}
	return &Server{
		listener: l, address: net.JoinHostPort(host, port), fingerprint: fingerprintOf(certificate.Certificate[0]), now: time.Now, patience: waitingLimit, log: o.Log,
		config:  &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true},
		waiting: list.New(),
	}, nil
}

// Address gives the address that clients dial.
func (s *Server) Address() string { return s.address }

// Offer makes a grant.
func (s *Server) Offer(g Grant) (attach.Offer, error) {
	if s.admitted.Load() >= maxAdmitted {
		return attach.Offer{}, errMany
	}
	secret, err := s.grants.give(s.now(), g)
	if err != nil {
		return attach.Offer{}, err
	}
	return attach.Offer{Address: s.address, Fingerprint: s.fingerprint, Grant: hex.EncodeToString(secret)}, nil
}

// Serve calls handle for each connection that shows a grant, which it closes afterwards. It returns
// when ctx has ended and all are closed.
func (s *Server) Serve(ctx context.Context, handle func(ctx context.Context, conn *tunnel.Conn, g Grant)) {
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { s.report(ctx) })
	for {
		plain, err := s.listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				plain.Close()
			}
			return
		case err != nil:
			// No descriptors, or a connection that ended before: neither ends the listener.
			s.log.Warn("could not take a direct connection", "err", err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		forget := s.await(plain)
		all.Go(func() { s.attend(ctx, plain, forget, handle) })
	}
}

// acceptPause is after a connection that couldn't be taken, so that the log isn't filled.
const acceptPause = time.Second

// await counts a connection among those that wait until forget is called. It closes the oldest if
// there are too many.
func (s *Server) await(plain net.Conn) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.Len() >= maxWaiting {
		s.waiting.Remove(s.waiting.Front()).(net.Conn).Close()
	}
	e := s.waiting.PushBack(plain)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting.Remove(e) // which may have been done
	}
}

// attend finds out whether a connection has a grant, and handles it.
func (s *Server) attend(ctx context.Context, plain net.Conn, forget func(), handle func(context.Context, *tunnel.Conn, Grant)) {
	stop := context.AfterFunc(ctx, func() { plain.Close() })
	conn, g, err := s.admit(plain)
	stop()
	forget()
	if err != nil {
		plain.Close()
		s.refused.Add(1)
		s.log.Debug("refused a direct connection", "from", plain.RemoteAddr().String(), "err", err)
		return
	}
	defer s.admitted.Add(-1)
	over := tunnel.Over(conn)
	defer over.Close()
	stop = context.AfterFunc(ctx, func() { over.Close() })
	defer stop()
	handle(ctx, over, g)
}

// admit gives the connection of one that shows a good grant. It counts as admitted then.
func (s *Server) admit(plain net.Conn) (*tls.Conn, Grant, error) {
	if err := plain.SetDeadline(time.Now().Add(s.patience)); err != nil {
		return nil, Grant{}, err
	}
	conn := tls.Server(plain, s.config)
	if err := conn.Handshake(); err != nil {
		return nil, Grant{}, err
	}
	r, err := readRedemption(conn)
	if err != nil {
		return nil, Grant{}, err
	}
	g, err := s.grants.use(s.now(), r)
	if err != nil {
		return nil, Grant{}, err
	}
	if s.admitted.Add(1) > maxAdmitted {
		s.admitted.Add(-1)
		return nil, Grant{}, errMany
	}
	_, err = conn.Write([]byte{granted})
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		s.admitted.Add(-1)
		return nil, Grant{}, err
	}
	return conn, g, nil
}

// reportEvery is between two lines of the log about connections that were refused, so that they
// can't fill it.
const reportEvery = time.Minute

func (s *Server) report(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if n := s.refused.Swap(0); n > 0 {
			s.log.Warn("refused direct connections without a good grant", "connections", n)
		}
	}
}
