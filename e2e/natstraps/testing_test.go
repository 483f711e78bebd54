package natstraps_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/e2e/natscluster"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 60 * time.Second

var (
	names = stream.NamesWith("")
	work  = schemas.Name{Tenant: "acme", Session: "work"}
)

// one is a server with Diapause's streams.
func one(t *testing.T) (*natscluster.Cluster, jetstream.JetStream) {
	t.Helper()
	c := natscluster.Start(t, 1)
	_, js := connect(t, c.Door())
	must(t, stream.Ensure(t.Context(), js, names, 1))
	return c, js
}

// three are servers that hold Diapause's streams between them.
func three(t *testing.T) (*natscluster.Cluster, jetstream.JetStream) {
	t.Helper()
	c := natscluster.Start(t, 3)
	_, js := connect(t, c.Door())
	until(t, "the streams are made", func() bool { return stream.Ensure(t.Context(), js, names, 3) == nil })
	c.AwaitCurrent(names.SessionStream(), names.Activity(), names.Commands())
	return c, js
}

func connect(t *testing.T, d *natscluster.Door, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := d.Connect(options...)
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	return nc, js
}

func records(t *testing.T, js jetstream.JetStream) *statekv.Store {
	t.Helper()
	s, err := statekv.Open(t.Context(), js, names)
	must(t, err)
	s.Attempt, s.Retry = time.Second, 20*time.Millisecond
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s it isn't so: %s", limit, what)
		}
	}
}

// code is the server's error code of an answer, 0 if it is none.
func code(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

func newSession() schemas.Transition {
	return schemas.Transition{Type: schemas.TRun, Reason: "asked", Actor: "test", Set: schemas.Set{
		New: &schemas.NewSession{UID: "u1", Tenant: work.Tenant, Session: work.Session, Class: "web", Driver: "fake"}, Host: "h",
		Op: &schemas.Op{ID: "o1", Kind: schemas.OpStart},
	}}
}

func swap(t *testing.T, s *statekv.Store, prev statekv.Versioned, transition schemas.Transition) statekv.Versioned {
	t.Helper()
	v, err := s.Swap(t.Context(), prev, transition)
	must(t, err)
	return v
}

func state(t *testing.T, js jetstream.JetStream, name string) (out jetstream.StreamState) {
	t.Helper()
	until(t, "stream "+name+" is found", func() bool {
		s, err := js.Stream(t.Context(), name)
		if err == nil {
			out = s.CachedInfo().State
		}
		return err == nil
	})
	return out
}
