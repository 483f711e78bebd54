package gateway

import (
	"cmp"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// noted counts each request, and logs it at the level of debugging: its path without the query, and none of its headers.
func (g *Gateway) noted(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		s := &statusWriter{ResponseWriter: w, limit: g.answerWait}
		defer func() {
			status := cmp.Or(s.status, http.StatusOK)
			g.answered[min(status/100, len(g.answered)-1)].Add(1)
			log.Debug("request answered", "method", r.Method, "path", shownPath(r.URL.Path), "status", status, "from", r.RemoteAddr, "ms", time.Since(began).Milliseconds())
		}()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the one of the answer before, on a connection that was kept
		next.ServeHTTP(s, r)
	})
}

// shownPath is a path without a token that was put there by mistake.
func shownPath(path string) string {
	if i := strings.Index(path, schemas.TokenPrefix); i >= 0 {
		return path[:i] + "…"
	}
	return path
}

// Answered counts the requests that were answered, by the class of their status: 2xx, 4xx and so on.
func (g *Gateway) Answered() map[string]uint64 {
	by := map[string]uint64{}
	for class := range g.answered {
		if n := g.answered[class].Load(); n > 0 || class == http.StatusOK/100 {
			by[strconv.Itoa(class)+"xx"] = n
		}
	}
	return by
}

// Streams counts the streams of events that are open.
func (g *Gateway) Streams() int {
	g.streams.mu.Lock()
	defer g.streams.mu.Unlock()
	return g.streams.all
}

// answerWait is how long a client may take to read an answer. Streams bound each event instead.
const answerWait = time.Minute

// statusWriter remembers the status of an answer, and bounds how long it takes to be read.
type statusWriter struct {
	http.ResponseWriter
	limit  time.Duration
	status int // 0 before there is one
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.limit)) // a test's recorder has none
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach what flushes and has deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
