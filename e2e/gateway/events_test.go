package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

func (w *world) until(what string, ok func() bool) {
	w.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("waited in vain until %s:\n%s", what, w.Stack.Log())
		}
	}
}

// logEvent is what is looked at of an event.
type logEvent struct {
	Name       string
	UID        schemas.UID
	Transition schemas.TransitionView
}

// reader is a client of the stream of events, which comes back as a browser does.
type reader struct {
	*world
	token string
	last  string // the id of the last event
	all   []logEvent
	ids   []string
}

// read reads until stop says so or the connection ends.
func (r *reader) read(ctx context.Context, stop func(logEvent) bool) error {
	ask, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.address+"/api/v1/events", nil)
	if err != nil {
		return err
	}
	ask.Header.Set("Authorization", "Bearer "+r.token)
	if r.last != "" {
		ask.Header.Set("Last-Event-ID", r.last)
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil // the API isn't back yet
	}
	kind := ""
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			r.last = value
		case "event":
			kind = value
		case "data":
			if kind != "transition" {
				return nil // it says why it ends
			}
			var e logEvent
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				return err
			}
			r.all, r.ids = append(r.all, e), append(r.ids, r.last)
			if stop(e) {
				return nil
			}
		}
	}
	return nil
}

// follow reads, over as many connections as it takes, until stop says so.
func (r *reader) follow(stop func(logEvent) bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	for stopped := false; !stopped; {
		_ = r.read(ctx, func(e logEvent) bool { // a daemon that was killed ends it with an error
			stopped = stop(e)
			return stopped
		})
		select {
		case <-ctx.Done():
			r.Errorf("the events end after %d: %+v", len(r.all), r.all)
			return
		case <-time.After(20 * time.Millisecond): // the daemon may be down
		}
	}
}

// TestEventsAcrossRestarts reads events while the daemon is killed and started again: none is missed, none comes twice.
func TestEventsAcrossRestarts(t *testing.T) {
	w := newWorld(t)
	a := asks{w, w.address, w.token("--role", "operator")}
	r := &reader{world: w, token: w.token("--role", "reader", "--tenant", "acme"), last: "0"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.follow(func(e logEvent) bool { return e.Name == "acme/web" && e.Transition.State == schemas.Deleted })
	}()
	a.call("POST", "/api/v1/sessions", 201, counting("acme/web"), nil)
	a.call("POST", "/api/v1/sessions", 201, counting("other/web"), nil)
	w.must(w.Kill())
	w.up()
	a.call("POST", "/api/v1/sessions/{session=acme.web}/suspend", 200, nil, nil)
	w.must(w.Kill())
	w.up()
	a.call("POST", "/api/v1/sessions/{session=acme.web}/ensure", 200, nil, nil)
	a.call("POST", "/api/v1/sessions/{session=other.web}/suspend", 200, nil, nil)
	var past []schemas.TransitionView
	a.call("GET", "/api/v1/sessions/{session=acme.web}/history", 200, nil, &past)
	a.call("DELETE", "/api/v1/sessions/{session=acme.web}", 200, nil, nil)
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatal("the client waits for ever")
	}
	for i, e := range r.all {
		if e.Name != "acme/web" || e.Transition.Version != uint64(i+1) {
			t.Fatalf("event %d is version %d of %s", i, e.Transition.Version, e.Name)
		}
	}
	if len(r.all) <= len(past) || !slices.EqualFunc(r.all[:len(past)], past, func(e logEvent, v schemas.TransitionView) bool {
		return e.Transition.Type == v.Type && e.Transition.At.Equal(v.At)
	}) {
		t.Errorf("the events are\n%+v, the history\n%+v", r.all, past)
	}
	seen := map[string]bool{}
	for _, id := range r.ids {
		if seen[id] {
			t.Errorf("event %s comes twice", id)
		}
		seen[id] = true
	}
}
