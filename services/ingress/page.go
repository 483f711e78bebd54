package ingress

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Reserved is where the waiting page asks how far its session is, on the origin of each. The session never
// gets a request for it.
const Reserved = "/.well-known/diapause/wake"

// progress is what the waiting page shows.
type progress struct {
	Session string        `json:"session"`
	State   schemas.State `json:"state"`
	Stages  []stage       `json:"stages"`
	MS      int64         `json:"ms"`              // since it was asked for
	Waiting bool          `json:"waiting"`         // it is asked for now
	Ready   bool          `json:"ready"`           // the port listens
	Error   string        `json:"error,omitempty"` // why it won't come
	Hint    string        `json:"hint,omitempty"`
}

// stage is a step of what has the session run.
type stage struct {
	Name  string `json:"name"`
	MS    int64  `json:"ms"` // when it was reached
	Bytes int64  `json:"bytes,omitempty"`
	Of    int64  `json:"of,omitempty"`
}

// tryPort bounds a look whether a port listens.
const tryPort = 2 * time.Second

// serveState answers the waiting page. To look is no use of the session.
func (p *Proxy) serveState(w http.ResponseWriter, r *http.Request, v *visit) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeProblem(w, refused(http.StatusMethodNotAllowed, schemas.CodeUsage, "the state of a wake is read by GET", ""))
		return
	}
	view, err := p.Waker.Look(r.Context(), v.target)
	if err != nil {
		writeProblem(w, problemOf(err, v.target))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(p.progressOf(r.Context(), v.target, view)) // the page may be closed
}

// progressOf says how far a session is, and whether its port listens.
func (p *Proxy) progressOf(ctx context.Context, t Target, view schemas.View) progress {
	out := progress{Session: view.Name, State: view.State, Stages: []stage{}}
	w := p.wakes.last(t.Name)
	if w != nil {
		out.Waiting = !w.over()
		out.MS = time.Since(w.began).Milliseconds()
		for _, s := range w.steps() {
			out.Stages = append(out.Stages, stage{strings.TrimSpace(s.Kind + " " + s.Stage), s.MS, s.Bytes, s.Of})
		}
	}
	var e problem
	switch {
	case view.State == schemas.Running:
		ctx, cancel := context.WithTimeout(ctx, tryPort)
		defer cancel()
		conn, err := p.Dialer.Dial(ctx, view, t.Port)
		if err == nil {
			conn.Close()
			out.Ready = true
			return out
		}
		if !errors.Is(err, ErrRefused) || w != nil && time.Since(w.began) < p.Budgets.Wake+p.Budgets.Connect && time.Since(view.Since) < p.Budgets.Connect {
			return out
		}
		e = problemOf(errClosed, t)
	case w != nil && w.over() && w.err != nil && !errors.Is(w.err, errWaking):
		e = problemOf(w.err, t)
	default:
		return out
	}
	out.Error, out.Hint = cmp.Or(e.says, e.Detail), e.Hint
	return out
}

//go:embed page.html
var pageText string

var pages = template.Must(template.New("page").Parse(pageText))

// pageData is what the page shows.
type pageData struct {
	Nonce   string
	Session string
	Port    uint16
	State   string // where the page asks how far the session is; "" of an error
	Title   string
	Text    string
	Hint    string
}

// waitingPage has a person wait, and see what for.
func (p *Proxy) waitingPage(w http.ResponseWriter, r *http.Request, v *visit) {
	if v.target.Prefix != "" {
		e := problemOf(errWaking, v.target)
		p.refuse(w, r, e)
		return
	}
	h := w.Header()
	h.Set("Retry-After", "1")
	writePage(w, http.StatusServiceUnavailable, pageData{Session: v.target.Name.String(), Port: v.target.Port, State: Reserved, Title: v.target.Name.String()})
}

// errorPage tells a person what is wrong.
func (p *Proxy) errorPage(w http.ResponseWriter, e problem) {
	writePage(w, e.Status, pageData{Session: e.Session, Title: http.StatusText(e.Status), Text: cmp.Or(e.says, e.Detail), Hint: e.Hint})
}

// writePage writes a page that loads nothing, and runs its own script alone.
func writePage(w http.ResponseWriter, status int, d pageData) {
	d.Nonce = rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%[1]s'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'", d.Nonce))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_ = pages.Execute(w, d) // the client may be gone
}

// toOrigin sends a navigation in the path form to the origin of its own that the port has.
func (p *Proxy) toOrigin(w http.ResponseWriter, r *http.Request, v *visit) {
	view, err := p.Waker.Look(r.Context(), v.target)
	if err != nil {
		p.refuse(w, r, problemOf(err, v.target))
		return
	}
	to := *r.URL
	withoutPrefix(&to, v.target.Prefix)
	to.Scheme, to.Host = "http", Host(p.Domain, v.target.Name, view.UID, v.target.Port)
	if r.TLS != nil {
		to.Scheme = "https"
	}
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		to.Host = net.JoinHostPort(to.Host, port)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to.String(), http.StatusTemporaryRedirect)
}
