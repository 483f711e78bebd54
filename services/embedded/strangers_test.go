package embedded

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/strangers"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// What a stranger says takes the place of nothing that is stored, keeps none of its headers that the server heeds,
// and goes when it is of no more use.
func TestStrangersReplaceNothing(t *testing.T) {
	o := options(t)
	s := start(t, o)
	js := withStreams(t, s, o)
	edge := connect(t, s, "")
	all, err := js.Stream(t.Context(), stream.NamesWith("").Activity())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"hold.cli", "input", "agent.manual", "nonsense", "hold.a.b"} {
		subject := "diapause.v1.activity.acme.web-42." + kind
		own, err := js.Publish(t.Context(), subject, []byte(`{"by":"owner"}`))
		if err != nil {
			t.Fatal(err)
		}
		m := &nats.Msg{Subject: subject, Data: []byte(`{"released":true}`), Header: nats.Header{
			"Nats-Msg-Id": {"x"}, "Nats-Expected-Last-Sequence": {"0"}, "Nats-TTL": {"never"}, "Ce-Note": {"kept"}, "X": {"y"},
		}}
		if err := errors.Join(edge.PublishMsg(m), edge.Flush()); err != nil {
			t.Fatal(err)
		}
		marked := storedActivity(t, js, subject+".~0")
		if got, err := all.GetMsg(t.Context(), own.Sequence); err != nil || string(got.Data) != `{"by":"owner"}` {
			t.Errorf("%s: its owner's word is %v, %v", kind, got, err)
		}
		if h := marked.Header; len(h.Values("Nats-Msg-Id"))+len(h.Values("Nats-Expected-Last-Sequence"))+len(h.Values("X")) > 0 || h.Get("Ce-Note") != "kept" {
			t.Errorf("%s: stored with %v", kind, h)
		}
		want := map[string]string{"hold.cli": "660", "nonsense": "600", "hold.a.b": "600"}[kind]
		if got := marked.Header.Get("Nats-TTL"); got != want {
			t.Errorf("%s: stored for %q, want %q", kind, got, want)
		}
	}
}

// A stranger has only so much stored about a session; what is more is dropped, and told. Others, and those with
// credentials, are not touched.
func TestStrangersHaveBounds(t *testing.T) {
	o := options(t)
	s := start(t, o)
	js := withStreams(t, s, o)
	missed := make(chan schemas.Name, 4*strangers.MostOfSession)
	s.Know(func(schemas.Name) bool { return true }, func(n schemas.Name) { missed <- n })
	edge := connect(t, s, "")
	for n := range 2 * strangers.MostOfSession {
		if err := edge.Publish(fmt.Sprintf("diapause.v1.activity.acme.web-42.hold.k%d", n), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := edge.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case n := <-missed:
		if n != (schemas.Name{Tenant: "acme", Session: "web-42"}) {
			t.Errorf("told is that some was dropped of %s", n)
		}
	case <-s.Intake():
		t.Error("what one user may not say of one session is a gap of all")
	case <-time.After(patience):
		t.Error("that some was dropped isn't told")
	}
	for _, subject := range []string{"diapause.v1.activity.acme.other.hold.x", "diapause.v1.activity.acme.web-42.hold.k0"} {
		if err := errors.Join(edge.Publish(subject, []byte(`{"reason":"last"}`)), edge.Flush()); err != nil {
			t.Fatal(err)
		}
		storedActivity(t, js, subject+".~0")
	}
	if _, err := js.Publish(t.Context(), "diapause.v1.activity.acme.web-42.hold.cli", nil); err != nil {
		t.Fatal(err)
	}
	stored := storedCount(t, js)
	if stored != strangers.MostOfSession+2 {
		t.Errorf("%d messages are stored, want %d", stored, strangers.MostOfSession+2)
	}
}

func storedCount(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	all, err := js.Stream(t.Context(), stream.NamesWith("").Activity())
	if err != nil {
		t.Fatal(err)
	}
	return all.CachedInfo().State.Msgs
}

// A message of the most that a stranger may send is stored, though there is no room for how long; one byte more isn't, and
// ends the connection.
func TestStrangersLargest(t *testing.T) {
	o := options(t)
	s := start(t, o)
	js := withStreams(t, s, o)
	edge := connect(t, s, "")
	const subject = "diapause.v1.activity.acme.web-42.hold.large"
	text := fmt.Sprintf(`{"reason":"%0*d"}`, edgePayload-len(`{"reason":""}`), 0)
	if err := errors.Join(edge.Publish(subject, []byte(text)), edge.Flush()); err != nil {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	if m := storedActivity(t, js, subject+".~0"); string(m.Data) != text || len(m.Header) > 0 {
		t.Errorf("stored is %.50q with %v", m.Data, m.Header)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT {\"verbose\":false}\r\nPUB %s %d\r\n%s \r\n", subject, len(text)+1, text)
	if answer, err := io.ReadAll(c); err != nil || !strings.Contains(string(answer), "Maximum Payload Violation") {
		t.Errorf("a byte more is answered %q, %v", answer, err)
	}
}

func TestMarkOf(t *testing.T) {
	for by, want := range map[string]string{"0": "~0", "1000": "~1000", "10.0.0.7": "~10-0-0-7", "fe80::1%eth0": "~fe80::1", "": "~4294967295"} {
		if got := markOf(by); got != want {
			t.Errorf("%q is %q, want %q", by, got, want)
		}
	}
}
