package ingress

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	door "github.com/diapause/diapause/services/ingress"
)

const firstSessions = 20

// firstRounds is how many first requests each of them gets: 500 in all, or 10,000 in a long run.
var firstRounds = map[bool]int{false: 25, true: 500}[os.Getenv("DIAPAUSE_LONG") != ""]

// TestFirstRequests asks for each of some sessions again and again, each time after it was suspended. None fails (http-add-on#854,
// #1492, #1692), and the history names each of the requests as what resumed the session.
func TestFirstRequests(t *testing.T) {
	t.Parallel()
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // half of the time it is collecting else
	l := newLane(t)
	var all sync.WaitGroup
	began := time.Now()
	for i := range firstSessions {
		v := l.begin(fmt.Sprintf("s%d", i))
		all.Go(func() { l.first(v) })
	}
	all.Wait()
	t.Logf("%d first requests took %s", firstSessions*firstRounds, time.Since(began).Round(time.Millisecond))
}

// first makes the requests to one session, until so many of them have found it asleep: what is told late of the one before may
// have resumed it already.
func (l *lane) first(v schemas.View) {
	n, err := schemas.ParseName(v.Name)
	if err != nil {
		l.t.Error(err)
		return
	}
	for asked, woke := 0, 0; woke < firstRounds; woke = l.woke(n) {
		if asked > 4*firstRounds {
			l.t.Errorf("of %d requests to session %s its history names %d as what resumed it", asked, n, woke)
			return
		}
		for missing := firstRounds - woke; missing > 0; missing-- {
			if !l.sleeps(n) {
				l.t.Errorf("session %s isn't suspended", n)
				return
			}
			asked++
			path := fmt.Sprintf("/first-%d", asked)
			if status, got := l.get(n, path); status != http.StatusOK || got != string(v.UID)+" "+path {
				l.t.Errorf("the first request %s to session %s gives %d %q", path, n, status, got)
				return
			}
		}
	}
}

// sleeps suspends a session. The end of a request may be told of after its answer, which undoes that.
func (l *lane) sleeps(n schemas.Name) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		var v schemas.View
		if l.ask("suspend", schemas.Request{Name: n.String()}, &v) != nil {
			continue
		}
		if r, err := l.records.Get(l.t.Context(), n); err == nil && r.State == schemas.Suspended {
			return true
		}
	}
	return false
}

// get asks the session for a path, by GET and by POST in turn.
func (l *lane) get(n schemas.Name, path string) (status int, text string) {
	method, body := http.MethodGet, io.Reader(nil)
	if strings.HasSuffix(path, "1") {
		method, body = http.MethodPost, strings.NewReader("a question")
	}
	r, err := http.NewRequest(method, l.url+path, body)
	if err != nil {
		return 0, err.Error()
	}
	r.Host = door.Host(door.DefaultDomain, n, "", 8080)
	answer, err := l.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(b)
}

// firstRequest is how the log names one that resumed a session.
var firstRequest = regexp.MustCompile(`^(GET|POST) /first-\d+ to port 8080 \(fetch by this machine\)$`)

// woke counts the requests that resumed a session, as its history has it.
func (l *lane) woke(n schemas.Name) int {
	var all []schemas.TransitionView
	if err := l.ask("history", schemas.Request{Name: n.String()}, &all); err != nil {
		l.t.Error(err)
		return firstRounds
	}
	by := map[string]bool{}
	for _, t := range all {
		if t.Type == schemas.TResume && firstRequest.MatchString(t.Reason) {
			by[t.Reason] = true
		}
	}
	return len(by)
}
