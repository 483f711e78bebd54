package embedded

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
)

// patience bounds every wait; a passing test never waits so long.
const patience = 30 * time.Second

const edgeSubject = "diapause.v1.activity.acme.web-42.input"

// stranger is a client whose refusals can be waited for.
type stranger struct {
	*nats.Conn
	refusals chan error
}

func connectStranger(t *testing.T, s *Server, credsFile string) stranger {
	t.Helper()
	refusals := make(chan error, 64)
	nc := connect(t, s, credsFile, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err }))
	return stranger{nc, refusals}
}

// mustRefuse does something and waits until the server says that it refused it.
func (s stranger) mustRefuse(t *testing.T, what string, do func() error) {
	t.Helper()
	if err := do(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	select {
	case err := <-s.refusals:
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, want a permissions violation that names it", what, err)
		}
	case <-time.After(patience):
		t.Errorf("%s was not refused", what)
	}
}

func (s stranger) refuses(t *testing.T, publish, subscribe []string) {
	t.Helper()
	for _, subject := range publish {
		s.mustRefuse(t, subject, func() error { return s.Publish(subject, []byte("{}")) })
	}
	for _, subject := range subscribe {
		s.mustRefuse(t, subject, func() error { _, err := s.SubscribeSync(subject); return err })
		s.mustRefuse(t, subject, func() error { _, err := s.QueueSubscribeSync(subject, "q"); return err })
	}
}

func TestWithoutCredentialsNothingButActivity(t *testing.T) {
	o := options(t)
	s := start(t, o)
	withStreams(t, s, o)
	edge := connectStranger(t, s, "")
	names := stream.NamesWith("")
	edge.refuses(t, []string{
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.PURGE." + names.Activity(),
		"$JS.API.STREAM.DELETE." + names.SessionStream(), "$JS.API.STREAM.MSG.GET." + names.SessionStream(),
		"$JS.API.CONSUMER.CREATE." + names.Activity(), "$JS.ACK.x.y.1.1.1.1.1",
		"$KV." + names.Sessions() + ".default.web", "$O.bucket.C.x",
		"diapause.v1.command.host.default.web", "diapause.v1.api.suspend", "diapause.v1.session.default.web",
		"diapause.v1.event.default.web.x", "diapause.v1.stored.1.default.web.input", "diapause.v1.host.h.dial",
		"diapause.v1.progress.default.web", "diapause.v1.activity", "diapause.v2.activity.a.b.c",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.DIAPAUSE.CONNZ", "$SRV.PING", "_INBOX.x.y", "_R_.x.y", "x",
	}, []string{
		">", "*", "*.>", "_INBOX.>", "_INBOX.x", "_R_.>", "$SYS.>", "$JS.>", "$JS.API.>", "$KV.>", "$SRV.>",
		"diapause.>", "diapause.v1.activity.>", "diapause.v1.command.>", "diapause.v1.session.>",
		"diapause.v1.api.>", "diapause.v1.event.>", edgeSubject,
	})
}

func TestWithoutCredentialsActivityArrives(t *testing.T) {
	o := options(t)
	s := start(t, o)
	js := withStreams(t, s, o)
	edge := connectStranger(t, s, "")
	if err := edge.Publish(edgeSubject, nil); err != nil {
		t.Fatal(err)
	}
	m := storedActivity(t, js, edgeSubject+".~0")
	if len(m.Data) != 0 {
		t.Errorf("stored %q, want the empty payload", m.Data)
	}
}

// storedActivity waits for what an activity subject was stored as.
func storedActivity(t *testing.T, js jetstream.JetStream, subject string) *jetstream.RawStreamMsg {
	t.Helper()
	activity, err := js.Stream(t.Context(), stream.NamesWith("").Activity())
	if err != nil {
		t.Fatal(err)
	}
	stored := "diapause.v1.stored.*" + strings.TrimPrefix(subject, "diapause.v1.activity")
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		m, err := activity.GetLastMsgForSubject(t.Context(), stored)
		if err == nil {
			return m
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) || time.Now().After(end) {
			t.Fatalf("activity on %s: %v", subject, err)
		}
	}
}

func TestWithoutCredentialsMessagesAreSmall(t *testing.T) {
	o := options(t)
	s := start(t, o)
	edge := connectStranger(t, s, "")
	if err := edge.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := edge.MaxPayload(); got != edgePayload {
		t.Errorf("the server lets a stranger send %d bytes, want %d", got, edgePayload)
	}
	if err := edge.Publish(edgeSubject, make([]byte, edgePayload+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a large message: %v, want ErrMaxPayload", err)
	}
}

// One user without credentials takes no connection from another, nor from those with credentials.
func TestStrangersDontTakeAllConnections(t *testing.T) {
	o := options(t)
	s := start(t, o)
	for range perUser {
		connect(t, s, "")
	}
	if nc, err := natsconn.Connect(t.Context(), s.URL(), "", "one too many"); err == nil {
		nc.Close()
		t.Errorf("more than %d connections of one user were let in", perUser)
	}
	another, err := natsconn.Connect(t.Context(), s.URL(), "", "another user", nats.InProcessServer(s)) // who the gate lets in
	if err != nil {
		t.Errorf("another user isn't let in: %v", err)
	} else {
		another.Close()
	}
	connect(t, s, CredsFile(o.CredsDir, UserSystem))
}

func TestGuessedCredentialsAreRefused(t *testing.T) {
	s := start(t, options(t))
	for _, guess := range []nats.Option{
		nats.UserInfo(edgeUser, ""), nats.UserInfo("system", "system"), nats.UserInfo("sys", ""), nats.Token("x"),
	} {
		nc, err := natsconn.Connect(t.Context(), s.URL(), "", "guess", guess)
		if err == nil {
			nc.Close()
			t.Error("guessed credentials were accepted")
		}
	}
}

func TestTheClientUser(t *testing.T) {
	o := options(t)
	s := start(t, o)
	js := withStreams(t, s, o)
	names := stream.NamesWith("")
	client := connectStranger(t, s, CredsFile(o.CredsDir, UserClient))
	client.refuses(t, []string{
		"$KV." + names.Sessions() + ".default.web", "$KV." + names.Hosts() + ".h",
		"diapause.v1.command.host.default.web", "diapause.v1.session.default.web",
		"diapause.v1.event.default.web.x", "diapause.v1.stored.1.default.web.input",
		"$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.UPDATE." + names.Activity(),
		"$JS.API.STREAM.DELETE." + names.Activity(), "$JS.API.STREAM.PURGE." + names.Activity(),
		"$JS.API.STREAM.MSG.DELETE." + names.SessionStream(), "$SYS.REQ.SERVER.PING", "diapause.v1.host.h.forget", "diapause.v1.host.h.redact",
	}, []string{"diapause.v1.api.>", "diapause.v1.host.>", "diapause.v1.command.>"})

	system := connect(t, s, CredsFile(o.CredsDir, UserSystem))
	if _, err := system.Subscribe("diapause.v1.api.*", func(m *nats.Msg) { _ = m.Respond([]byte("answer")) }); err != nil {
		t.Fatal(err)
	}
	if err := system.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := client.Request("diapause.v1.api.ls", nil, patience); err != nil || string(m.Data) != "answer" {
		t.Errorf("request to the API: %v, %v", m, err)
	}
	if err := client.Publish(edgeSubject, nil); err != nil {
		t.Fatal(err)
	}
	storedActivity(t, js, edgeSubject)
	readAsClient(t, client.Conn, names)
}

func readAsClient(t *testing.T, nc *nats.Conn, names stream.Names) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	oc, err := js.OrderedConsumer(t.Context(), names.Activity(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := oc.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(m.Subject(), ".acme.web-42.input") {
		t.Errorf("read %s, want the activity", m.Subject())
	}
	if _, err := js.KeyValue(t.Context(), names.Sessions()); err != nil {
		t.Errorf("open the records for reading: %v", err)
	}
}

// state is what a stranger must not be able to change.
type state struct {
	streams, victims string
}

func stateOf(t *testing.T, js jetstream.JetStream) state {
	t.Helper()
	var st state
	names := stream.NamesWith("")
	for _, name := range []string{names.SessionStream(), "KV_" + names.Hosts(), names.Events(), names.Commands()} {
		str, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatalf("stream %s: %v", name, err)
		}
		i := str.CachedInfo()
		st.streams += fmt.Sprintf("%s %d messages, first %d, last %d\n", name, i.State.Msgs, i.State.FirstSeq, i.State.LastSeq)
	}
	for _, v := range victims() {
		m := storedActivity(t, js, v)
		st.victims += fmt.Sprintf("%s %d %s\n", v, m.Sequence, m.Data)
	}
	return st
}

func victims() []string {
	return []string{"diapause.v1.activity.victim.web.input", "diapause.v1.activity.victim.web.hold.night"}
}

// attack publishes each message as a stranger, and checks after each that
// nothing of others has changed.
func attack(t *testing.T, attacks map[string]*nats.Msg) {
	t.Helper()
	o := options(t)
	s := start(t, o)
	js := withStreams(t, s, o)
	subjects := append(victims(), "$KV."+stream.NamesWith("").Sessions()+".default.web",
		"diapause.v1.event.default.web.x", "diapause.v1.command.host.default.web")
	for _, subject := range subjects {
		if _, err := js.Publish(t.Context(), subject, []byte("original")); err != nil {
			t.Fatal(err)
		}
	}
	before := stateOf(t, js)
	nc := connect(t, s, "", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	for name, m := range attacks {
		m.Subject, m.Data = edgeSubject, []byte("{}")
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		// The stream answers in order: once this is acknowledged, so is the attack.
		if _, err := js.Publish(t.Context(), "diapause.v1.activity.barrier.x.input", nil); err != nil {
			t.Fatal(err)
		}
		if after := stateOf(t, js); after != before {
			t.Errorf("%s changed what belongs to others:\n%s%s\nbefore:\n%s%s", name, after.streams, after.victims, before.streams, before.victims)
			before = after
		}
	}
}

func TestAcknowledgementsGoNowhereElse(t *testing.T) {
	names := stream.NamesWith("")
	attacks := map[string]*nats.Msg{}
	for _, reply := range []string{
		"$KV." + names.Sessions() + ".default.web", "$KV." + names.Hosts() + ".h",
		"diapause.v1.command.host.default.web", "diapause.v1.event.default.web.x",
		"$JS.API.STREAM.PURGE." + names.Events(), "$JS.API.STREAM.DELETE." + names.Events(),
		"_R_.x.y", "_INBOX.x",
	} {
		attacks["reply to "+reply] = &nats.Msg{Reply: reply}
	}
	attack(t, attacks)
}

func TestHeadersDoNothingToOthers(t *testing.T) {
	stored := "diapause.v1.stored.1.victim.web.input"
	attacks := map[string]*nats.Msg{}
	for _, h := range []nats.Header{
		{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}},
		{"Nats-Schedule": {"@at 2009-11-10T23:00:00Z"}, "Nats-Schedule-Target": {stored}},
		{"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {victims()[0]}},
		{"Nats-Schedule-Next": {"purge"}, "Nats-Scheduler": {stored}},
		{"Nats-Schedule-Rollup": {"sub"}, "Nats-Scheduler": {stored}},
		{"Nats-Batch-Id": {"a"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
		{"Nats-Incr": {"+1"}}, {"Nats-TTL": {"1s"}}, {"Nats-TTL": {"never"}}, {"Nats-Marker-Reason": {"Purge"}},
		{"KV-Operation": {"PURGE"}}, {"Nats-Stream-Source": {"x"}},
		{"Nats-Expected-Last-Sequence": {"0"}}, {"Nats-Expected-Stream": {"x"}},
		{"Nats-Expected-Last-Subject-Sequence": {"0"}, "Nats-Expected-Last-Subject-Sequence-Subject": {stored}},
		{"Nats-Trace-Dest": {"$KV.DIAPAUSE_sessions.default.web"}},
		{"Nats-Trace-Dest": {"diapause.v1.event.default.web.x"}}, {"Nats-Trace-Dest": {edgeSubject}, "Nats-Trace-Only": {"true"}},
		{"Nats-Msg-Id": {"x"}},
	} {
		attacks[fmt.Sprint(h)] = &nats.Msg{Header: h}
	}
	attack(t, attacks)
}
