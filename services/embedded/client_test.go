package embedded

import (
	"errors"
	"testing"
	"time"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// The Go client says what it has to say without credentials, and is told that it may
// not ask.
func TestClientWithoutCredentials(t *testing.T) {
	o := options(t)
	s := start(t, o)
	js := withStreams(t, s, o)
	refusals := make(chan error, 16)
	c, err := events.Connect(events.Options{URL: s.URL(), OnError: func(err error) { refusals <- err }})
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.Session("acme/web-42")
	if err != nil {
		t.Fatal(err)
	}
	session.Input()
	storedActivity(t, js, edgeSubject+".~0")
	lease, err := session.Busy(t.Context(), "build", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	m := storedActivity(t, js, "diapause.v1.activity.acme.web-42.busy.build.~0")
	if got := m.Header.Get("Nats-TTL"); got != "660" {
		t.Errorf("the lease's message is kept for %q s, want 660", got)
	}
	if err := lease.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refusals:
		t.Errorf("saying something was refused: %v", err)
	default:
	}
	if _, err := session.Ensure(t.Context()); !errors.Is(err, events.ErrDenied) {
		t.Errorf("asking without credentials: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	m = storedActivity(t, js, "diapause.v1.activity.acme.web-42.busy.build.~0")
	if a, err := schemas.ParseActivity(m.Data); err != nil || !a.Released {
		t.Errorf("after closing the lease is %+v, %v", a, err)
	}
}
