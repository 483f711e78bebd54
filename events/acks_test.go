package events

import (
	"strings"
	"testing"
	"time"

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
