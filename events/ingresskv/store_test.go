package ingresskv

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = time.Minute

func open(t *testing.T, js jetstream.JetStream) *Store {
	t.Helper()
	s, err := Open(t.Context(), js, stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func of(part, address string, port uint16) schemas.Listener {
	return schemas.Listener{Part: part, Address: address, Name: "acme/web", UID: "u1", Port: port, By: "ann"}
}

func TestListeners(t *testing.T) {
	js := natstest.Streams(t)
	s := open(t, js)
	added, err := s.Add(t.Context(), of("up", ":2222", 22))
	if err != nil || added.Added.IsZero() {
		t.Fatalf("add: %+v, %v", added, err)
	}
	for _, l := range []schemas.Listener{of("edge", ":2222", 23), of("edge", "[::1]:80", 24), of("edge", "10.0.0.7:80", 25)} {
		if _, err := s.Add(t.Context(), l); err != nil {
			t.Fatalf("add %+v: %v", l, err)
		}
	}
	if had, err := s.Add(t.Context(), of("up", ":2222", 80)); !errors.Is(err, ErrTaken) || had.Port != 22 {
		t.Errorf("add one where there is one: %+v, %v", had, err)
	}
	all, err := open(t, js).List(t.Context()) // as after a restart
	if err != nil || len(all) != 4 || all[0].Address != "10.0.0.7:80" || all[3].Port != 22 || !all[3].Added.Equal(added.Added) {
		t.Errorf("they are %+v, %v", all, err)
	}
	if l, err := s.Remove(t.Context(), "up", ":2222"); err != nil || l.Port != 22 {
		t.Errorf("remove: %+v, %v", l, err)
	}
	for _, none := range [][2]string{{"up", ":2222"}, {"edge", ":80"}, {"none", ":2222"}} {
		if _, err := s.Remove(t.Context(), none[0], none[1]); !errors.Is(err, ErrNone) {
			t.Errorf("remove %v: %v", none, err)
		}
	}
	if _, err := s.Add(t.Context(), of("up", ":2222", 80)); err != nil {
		t.Errorf("add one where one was removed: %v", err)
	}
	if all, err := s.List(t.Context()); err != nil || len(all) != 4 || all[3].Port != 80 {
		t.Errorf("they are %+v, %v", all, err)
	}
}

// Of many that add a listener at one address, one does.
func TestOneListenerAtAnAddress(t *testing.T) {
	js := natstest.Streams(t)
	var group sync.WaitGroup
	done := make(chan error, 8)
	for i := range cap(done) {
		s := open(t, js)
		group.Go(func() {
			_, err := s.Add(t.Context(), of("up", ":2222", uint16(i+1)))
			done <- err
		})
	}
	group.Wait()
	close(done)
	added := 0
	for err := range done {
		if err == nil {
			added++
		} else if !errors.Is(err, ErrTaken) {
			t.Error(err)
		}
	}
	if added != 1 {
		t.Errorf("%d are added", added)
	}
}

func TestWatch(t *testing.T) {
	s := open(t, natstest.Streams(t))
	must := func(_ schemas.Listener, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Add(t.Context(), of("up", ":1", 1)))
	must(s.Add(t.Context(), of("edge", ":2", 2)))
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	seen, ended := make(chan schemas.ListenerRecord), make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, "up", func(r schemas.ListenerRecord) {
			select {
			case seen <- r:
			case <-ctx.Done():
			}
		}, func(err error) { t.Error(err) })
	}()
	next := func() schemas.ListenerRecord {
		t.Helper()
		select {
		case r := <-seen:
			return r
		case <-ctx.Done():
			t.Fatal("nothing comes")
			return schemas.ListenerRecord{}
		}
	}
	if r := next(); r.Address != ":1" || !r.Removed.IsZero() {
		t.Errorf("first there is %+v", r)
	}
	must(s.Add(t.Context(), of("edge", ":3", 3)))
	must(s.Add(t.Context(), of("up", ":4", 4)))
	if r := next(); r.Address != ":4" {
		t.Errorf("then there is %+v", r)
	}
	must(s.Remove(t.Context(), "up", ":1"))
	if r := next(); r.Address != ":1" || r.Removed.IsZero() {
		t.Errorf("then there is %+v", r)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the watch ends with %v", err)
	}
}

func TestNoBucket(t *testing.T) {
	js := natstest.Streams(t)
	if err := js.DeleteStream(t.Context(), stream.NamesWith("").IngressStream()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), js, stream.NamesWith("")); !errors.Is(err, ErrNoBucket) {
		t.Errorf("a server of before: %v", err)
	}
}
