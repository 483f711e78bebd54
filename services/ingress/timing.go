package ingress

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"
)

// TimingHeader is of an answer that waited for its session to run: how long each stage took, in milliseconds, as browsers show
// it among a request's timings.
const TimingHeader = "Server-Timing"

// The stages of a request that a session is resumed for, in their order.
const (
	StageAuthorise = "diapause-authorise" // until the caller was known to be allowed
	StageAsk       = "diapause-ask"       // until a host was at work to resume the session
	StageResume    = "diapause-resume"    // until it ran
	StageConnect   = "diapause-connect"   // until there was a connection to its port
	StageAnswer    = "diapause-answer"    // until the answer began
)

// Stages lists them.
func Stages() []string {
	return []string{StageAuthorise, StageAsk, StageResume, StageConnect, StageAnswer}
}

// times are when a request came to its stages. Its handler's goroutine owns them.
type times struct {
	began, admitted, taken, ran, connected time.Time
}

// waited notes the end of a wake that the request waited for.
func (t *times) waited(w *wake) {
	t.ran = time.Now()
	t.taken = t.ran // where nothing was heard of its steps
	if at := w.takenAt(); at.After(t.admitted) && at.Before(t.ran) {
		t.taken = at
	} else if !at.IsZero() && !at.After(t.admitted) { // it was under way before
		t.taken = t.admitted
	}
}

// traced notes when a request has its connection.
func (t *times) traced(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.connected = time.Now() }}))
}

// tell adds the stages to the headers of an answer; none to one that has waited for nothing.
func (t *times) tell(h http.Header) {
	if t.ran.IsZero() || t.connected.IsZero() {
		return
	}
	all, from := Stages(), t.began
	for i, to := range []time.Time{t.admitted, t.taken, t.ran, t.connected, time.Now()} {
		all[i] += fmt.Sprintf(";dur=%.2f", float64(to.Sub(from).Microseconds())/1000)
		from = to
	}
	h.Add(TimingHeader, strings.Join(all, ", "))
}
