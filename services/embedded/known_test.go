package embedded

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// What is said without credentials of sessions that there aren't is not stored.
func TestUnknownSessionsAreNotStored(t *testing.T) {
	o := options(t)
	s := start(t, o)
	js := withStreams(t, s, o)
	s.Know(func(n schemas.Name) bool { return n.Tenant == "acme" && n.Session == "web-42" }, func(n schemas.Name) { t.Errorf("activity of %s was dropped", n) })
	edge := connect(t, s, "")
	header := &nats.Msg{Subject: "diapause.v1.activity.acme.none.hold.x", Header: nats.Header{"Nats-TTL": {"1h"}}, Data: []byte("{}")}
	for _, err := range []error{
		edge.Publish("diapause.v1.activity.acme.none.input", []byte("{}")), edge.PublishMsg(header),
		edge.Publish("diapause.v1.activity.other.web-42.input", nil), edge.Publish("diapause.v1.activity.acme.*.input", nil),
		edge.Publish(edgeSubject, []byte(`{"reason":"known"}`)), edge.Flush(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if m := storedActivity(t, js, edgeSubject+".~0"); !strings.Contains(string(m.Data), "known") {
		t.Errorf("stored %q", m.Data)
	}
	all, err := js.Stream(t.Context(), stream.NamesWith("").Activity())
	if err != nil {
		t.Fatal(err)
	}
	if n := all.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages are stored, want 1", n)
	}
	// With credentials all is stored: the session may be about to be made.
	system, err := jetstream.New(connect(t, s, CredsFile(o.CredsDir, UserSystem)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := system.Publish(t.Context(), "diapause.v1.activity.acme.none.input", nil); err != nil {
		t.Error(err)
	}
	// Nothing is gained by the subject where it goes.
	stranger := connectStranger(t, s, "")
	if err := errors.Join(stranger.Publish(unknownSubject, nil), stranger.Flush()); err != nil {
		t.Error(err)
	}
	stranger.mustRefuse(t, unknownSubject, func() error { _, err := stranger.SubscribeSync(unknownSubject); return err })
}
