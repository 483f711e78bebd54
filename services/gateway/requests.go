package gateway

import (
	"log/slog"
	"net/http"
	"time"
)

// noted logs each request, at the level of debugging: its path without the query, and none of its headers.
func noted(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			log.Debug("request answered", "method", r.Method, "path", r.URL.Path, "status", s.status, "from", r.RemoteAddr, "ms", time.Since(began).Milliseconds())
		}()
		next.ServeHTTP(s, r)
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach what flushes and has deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
