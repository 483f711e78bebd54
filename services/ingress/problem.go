package ingress

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strconv"

	"github.com/diapause/diapause/schemas"
)

// problem is an error as programs get it (RFC 9457).
type problem struct {
	Type    string         `json:"type"`
	Title   string         `json:"title"`
	Status  int            `json:"status"`
	Detail  string         `json:"detail"`
	Code    string         `json:"code"`
	Reason  schemas.Reason `json:"reason,omitempty"`
	Hint    string         `json:"hint,omitempty"`
	Session string         `json:"session,omitempty"`

	says  string // what is wrong, for a person, where Detail is technical
	retry int    // seconds after which to ask again; 0 if that is of no use
}

// The codes of errors that the API has none for. The list is stable.
const (
	CodeHost    = "unknown_host" // 421: the host name is none of a session
	CodePath    = "unknown_path" // 404: likewise the path
	CodeLogin   = "login"        // 401: the port is for those who prove who they are
	CodeDenied  = "denied"       // 403: the caller may not reach the port
	CodeWaking  = "waking"       // 503: the session is being resumed, and isn't there yet
	CodeAsleep  = "asleep"       // 503: the session is suspended, and the request doesn't resume it
	CodeAway    = "away"         // 503: the session runs, and its host can't be reached
	CodeClosed  = "port_closed"  // 502: nothing listens at the port of the session
	CodeBroken  = "broken"       // 502: the session ended the connection before it answered
	CodeNoReply = "no_answer"    // 504: the session took the request and doesn't answer
	retryUsual  = 5              // seconds
)

func refused(status int, code, detail, hint string) problem {
	return problem{Type: typeOf(code, ""), Title: http.StatusText(status), Status: status, Detail: detail, Code: code, Hint: hint}
}

// typeOf is the type of a problem, as the API has it.
func typeOf(code string, reason schemas.Reason) string {
	if reason == "" {
		return "urn:diapause:error:" + code
	}
	return "urn:diapause:error:" + code + ":" + string(reason)
}

func misdirected(domain string, err error) problem {
	if errors.Is(err, ErrHost) {
		return refused(http.StatusMisdirectedRequest, CodeHost, err.Error(), "sessions are at PORT--NAME."+below(domain))
	}
	return refused(http.StatusNotFound, CodePath, err.Error(), "want /s/TENANT/NAME/PORT/, or the host name PORT--NAME."+below(domain))
}

func below(domain string) string {
	if domain == DefaultDomain {
		return "TENANT." + domain
	}
	return domain
}

// problemOf says why a request failed.
func problemOf(err error, t Target) problem {
	p := refused(http.StatusServiceUnavailable, schemas.CodeFailed, err.Error(), schemas.HintOf(err))
	p.retry = retryUsual
	var api *schemas.APIError
	switch {
	case errors.As(err, &api):
		p.Code, p.Reason, p.Detail = api.Code, api.Reason, api.Text
		switch {
		case api.Code == schemas.CodeNoSession:
			p.Status, p.retry = http.StatusNotFound, 0
		case api.Reason == schemas.ReasonNoToken:
			p.Status, p.Code, p.retry = http.StatusUnauthorized, CodeLogin, 0
		case api.Reason == schemas.ReasonDenied:
			p.Status, p.Code, p.retry = http.StatusForbidden, CodeDenied, 0
		case api.Reason == schemas.ReasonTooMany:
			p.Status = http.StatusTooManyRequests
		case api.Reason == schemas.ReasonExited, api.Reason == schemas.ReasonFailed, api.Reason == schemas.ReasonNoSnapshot:
			p.retry = 0 // a person has to see to it
		}
	case errors.Is(err, errWaking), errors.Is(err, errPage), errors.Is(err, context.Canceled):
		p.Code, p.Detail = CodeWaking, fmt.Sprintf("session %s is being resumed", t.Name)
	case errors.Is(err, errAsleep):
		p.Code, p.Detail = CodeAway, fmt.Sprintf("session %s can't be reached: %v", t.Name, err)
	case errors.Is(err, errClosed):
		p.Status, p.Code, p.retry = http.StatusBadGateway, CodeClosed, 0
		p.Detail = fmt.Sprintf("nothing listens at %s", t)
		p.Hint = fmt.Sprintf("`diapause show %s` lists the ports at which it listens", t.Name)
	case timedOut(err):
		p.Status, p.Code, p.retry = http.StatusGatewayTimeout, CodeNoReply, 0
		p.Detail = fmt.Sprintf("%s took the request and doesn't answer", t)
	default:
		p.Status, p.Code, p.retry = http.StatusBadGateway, CodeBroken, 0
		p.Detail = fmt.Sprintf("%s ended the connection before it answered: %v", t, err)
	}
	p.Type, p.Title = typeOf(p.Code, p.Reason), http.StatusText(p.Status)
	if api != nil && api.Detail != "" {
		p.says, p.Title, p.Detail = api.Text, api.Text, api.Detail
	}
	if t.Name != (schemas.Name{}) {
		p.Session = t.Name.String()
	}
	return p
}

// failed answers a request that didn't reach its session.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	v := visitOf(r.Context())
	switch {
	case errors.Is(err, errPage):
		p.waitingPage(w, r, v)
		return
	case errors.Is(err, errAsleep) && v.verdict == Pass: // it ran a moment ago
		view, look := p.Waker.Look(r.Context(), v.target)
		if look == nil && view.State != schemas.Running {
			v.state, v.verdict = view.State, Decide(v.class, view.State, v.policy)
			p.instead(w, r, v)
			return
		}
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // there is no one to answer
	}
	p.Log.Info("a request failed", "session", v.target.Name.String(), "why", v.why.String(), "err", err)
	p.refuse(w, r, problemOf(err, v.target))
}

// refuse writes a problem: as a page for a person, else as an object.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, e problem) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept, Sec-Fetch-Mode, User-Agent")
	if e.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(e.retry))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="diapause"`)
	}
	if WantsPage(r) {
		p.errorPage(w, e)
		return
	}
	writeProblem(w, e)
}

func writeProblem(w http.ResponseWriter, e problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(e) // the client may be gone
}

// answerFor answers in the stead of a session that doesn't run. A probe is content, so that the session's
// requests go on being sent here; a chat gets a title to show; others are told to come back.
func (p *Proxy) answerFor(w http.ResponseWriter, r *http.Request, v *visit) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Diapause-State", string(cmp.Or(v.state, schemas.Suspended)))
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case v.state == schemas.Exited || v.state == schemas.Failed:
		p.refuse(w, r, problemOf(schemas.StateError(schemas.Reason(v.state), "session %s is %s", v.target.Name, v.state), v.target))
		return
	case v.class == Probe:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "session %s is suspended, and is resumed by the next request that isn't a probe\n", v.target.Name)
		return
	case v.class == LinkPreview && !guessed(r.Header):
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'")
		title := html.EscapeString(v.target.Name.String())
		fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>%s</title><meta property=og:title content=\"%[1]s\"><p>%[1]s is suspended.\n", title)
		return
	}
	e := refused(http.StatusServiceUnavailable, CodeAsleep, fmt.Sprintf("session %s is suspended, and a %s request doesn't resume it", v.target.Name, v.class), "")
	e.Hint, e.Session, e.retry = fmt.Sprintf("`diapause ensure %s` resumes it", v.target.Name), v.target.Name.String(), 60
	p.refuse(w, r, e)
}
