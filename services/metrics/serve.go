package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers /metrics, /healthz and /readyz.
type Server struct {
	meter    *Meter
	health   *Health
	version  string
	began    time.Time
	listener net.Listener
}

// Listen takes the address, so that nothing starts if it is in use; Serve answers.
func Listen(ctx context.Context, address string, m *Meter, h *Health, version string) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics on %s: %w", address, err)
	}
	return &Server{meter: m, health: h, version: version, began: time.Now(), listener: l}, nil
}

// URL is where it listens, "http://host:port".
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// closing is how long answers under way may take when the server is stopped.
const closing = 2 * time.Second

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Serve(s.listener) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	err := srv.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-stopped
	return err
}

// Handler is what Serve answers with.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.meter.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 8, Timeout: 20 * time.Second}))
	mux.HandleFunc("GET /healthz", s.alive)
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

// Alive answers /healthz: a process that answers lives.
type Alive struct {
	Status  string  `json:"status"`
	Version string  `json:"version"`
	Seconds float64 `json:"up_seconds"`
}

func (s *Server) alive(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, Alive{"ok", s.version, time.Since(s.began).Seconds()})
}

// Ready is what /readyz says, with status 503 if a part isn't.
type Ready struct {
	Ready bool   `json:"ready"`
	Parts []Part `json:"parts"`
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	parts, ready := s.health.Look(r.Context())
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, Ready{ready, parts})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}
