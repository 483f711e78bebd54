package events

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/schemas"
)

// acknowledged makes a client whose leases are acknowledged, as with credentials.
func acknowledged(t *testing.T, nc *nats.Conn, told func(error)) *Client {
	t.Helper()
	c := newClient(nc, Options{OnError: told})
	c.acks = true
	go c.run()
	t.Cleanup(func() { _ = c.Close() }) // what couldn't be stored is no matter
	return c
}

// A lease is said until it is stored, and not only when it is to be renewed.
func TestLeasesAreSaidUntilTheyAreStored(t *testing.T) {
	js := natstest.Connect(t, natstest.Serve(t).ClientURL())
	nc := js.Conn()
	s := sessionOf(t, acknowledged(t, nc, nil), "work")
	if _, err := s.Busy(t.Context(), "build", schemas.MaxLease); err != nil {
		t.Fatal(err)
	}
	const more = 4 // than a lease without acknowledgements takes until it is renewed
	for end := time.Now().Add(patience); nc.Stats().OutMsgs < more; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it was said %d times, and isn't stored", nc.Stats().OutMsgs)
		}
	}
	stored, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "activity", Subjects: []string{schemas.SubjectActivity + ".>"}, AllowMsgTTL: true})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if m, err := stored.GetMsg(t.Context(), 1); err == nil {
			if !strings.HasSuffix(m.Subject, ".work.busy.build") {
				t.Errorf("stored %s", m.Subject)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("the lease isn't stored")
		}
	}
}

// A server that never acknowledges has leases renewed without, and its service told.
func TestServersThatAcknowledgeNothing(t *testing.T) {
	var told []string
	c := &Client{acks: true, onError: func(err error) { told = append(told, err.Error()) }}
	for i := range silentMost - 1 {
		if err := c.silence(errSilent); err == nil || !c.acks {
			t.Errorf("after %d batches without an answer: %v, acknowledgements %v", i+1, err, c.acks)
		}
	}
	if err := c.silence(nil); err != nil || c.silent != 0 {
		t.Error("an answer counts for nothing")
	}
	for range silentMost - 1 {
		_ = c.silence(errSilent)
	}
	if err := c.silence(errSilent); err != nil || c.acks || len(told) != 1 {
		t.Errorf("after %d batches: %v, acknowledgements %v, told %v", silentMost, err, c.acks, told)
	}
}

// A user that may only publish has leases renewed without acknowledgements, at once and without a word.
func TestLeasesOfWhoMayNotListen(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, NoSystemAccount: true, Users: []*server.User{
		{Username: "publisher", Password: "p", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{">"}}}},
		{Username: "listener", Password: "p"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server doesn't begin")
	}
	listener, err := nats.Connect(s.ClientURL(), nats.UserInfo("listener", "p"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listener.Close)
	heard, err := listener.SubscribeSync(schemas.SubjectActivity + ".>")
	if err == nil {
		err = listener.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 9)
	c, err := Connect(Options{URL: s.ClientURL(), OnError: func(err error) { told <- err }, NATS: []nats.Option{nats.UserInfo("publisher", "p")}})
	if err != nil {
		t.Fatal(err)
	}
	closed, saysClosed := make(chan struct{}), c.nc.Opts.ClosedCB
	c.nc.SetClosedHandler(func(nc *nats.Conn) { saysClosed(nc); close(closed) })
	c.acks = true // as with credentials; nothing is said yet
	if _, err := sessionOf(t, c, "work").Busy(t.Context(), "build", schemas.MaxLease); err != nil {
		t.Fatal(err)
	}
	m, err := heard.NextMsg(patience)
	if err != nil || !strings.HasSuffix(m.Subject, ".work.busy.build") {
		t.Fatalf("the lease isn't said: %v, %v", m, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-closed
	select {
	case err := <-told:
		t.Errorf("its service is told: %v", err)
	default:
	}
	if c.acks {
		t.Error("it goes on asking for acknowledgements")
	}
}
