package stream_test

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// The message of a lease goes some time after the lease: else the subjects of
// connections would pile up.
func TestLeasesAreDropped(t *testing.T) {
	js, names := natstest.Streams(t), stream.NamesWith("")
	s, err := js.Stream(t.Context(), names.Activity())
	if err != nil {
		t.Fatal(err)
	}
	work := schemas.Name{Tenant: "default", Session: "work"}
	for _, c := range []struct {
		kind schemas.Kind
		key  string
		a    schemas.Activity
		want string
	}{
		{schemas.KindPresence, "c1", schemas.Activity{TTL: schemas.Duration(30 * time.Second)}, "10m30s"},
		{schemas.KindBusy, "op", schemas.Activity{Released: true}, "11m0s"},
		{schemas.KindInput, "", schemas.Activity{}, ""},
	} {
		seq, err := stream.Publisher{JS: js}.Activity(t.Context(), work, c.kind, c.key, c.a)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Get("Nats-TTL"); got != c.want {
			t.Errorf("%s is kept for %q, want %q", c.kind, got, c.want)
		}
	}
}
