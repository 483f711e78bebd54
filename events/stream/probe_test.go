package stream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
)

// narrow is a server whose streams have room for very little at a time.
func narrow(t *testing.T) (*server.Server, jetstream.JetStream) {
	t.Helper()
	s := natstest.ServeWith(t, server.Options{StreamMaxBufferedMsgs: 10})
	js := natstest.Connect(t, s.ClientURL())
	if err := stream.Ensure(t.Context(), js, stream.NamesWith(""), 1); err != nil {
		t.Fatal(err)
	}
	return s, js
}

// flood publishes without waiting for anything, until the test is over or stop is called.
func flood(t *testing.T, s *server.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for n := range 2 {
		nc := natstest.Connect(t, s.ClientURL()).Conn()
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_ = nc.Publish(fmt.Sprintf("diapause.v1.activity.acme.s%d.input", n), nil) // what is lost is the point
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// read reads activity for as long as the test says.
func read(t *testing.T, js jetstream.JetStream, probing bool, fn func(stream.Heard)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- stream.Activity(ctx, js, stream.NamesWith(""), nil, probing, fn) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A server that isn't ours drops messages and tells none: a reader that probes notices.
func TestProbesNoticeWhatIsDropped(t *testing.T) {
	t.Parallel()
	s, js := narrow(t)
	gap, caught := make(chan bool, 1), make(chan bool, 1)
	stop := read(t, js, true, func(h stream.Heard) {
		switch {
		case h.Gap:
			select {
			case gap <- true:
			default:
			}
		case h.CaughtUp:
			caught <- true
		case h.Bad != nil || strings.HasSuffix(string(h.Message.Source.Kind), "probe"):
			t.Errorf("a probe is taken for activity: %+v", h)
		}
	})
	defer stop()
	<-caught
	defer flood(t, s)()
	select {
	case <-gap:
	case <-time.After(limit):
		t.Error("that messages were dropped isn't noticed")
	}
}

// While a server keeps up nothing is taken for a gap, however much there is.
func TestProbesFindNothingWhereNothingIsDropped(t *testing.T) {
	t.Parallel()
	js := natstest.Streams(t)
	var mu sync.Mutex
	heard, gaps := 0, 0
	stop := read(t, js, true, func(h stream.Heard) {
		mu.Lock()
		defer mu.Unlock()
		if heard++; h.Gap {
			gaps++
		}
	})
	for range 200 { // never more than fits
		for range 500 {
			if _, err := js.PublishAsync("diapause.v1.activity.acme.s.input", nil); err != nil {
				t.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	if gaps > 0 || heard == 0 {
		t.Errorf("%d gaps in %d messages of a server that keeps up", gaps, heard)
	}
}

// A user who may not probe is told so, and hears all the same.
func TestProbesNeedAPermission(t *testing.T) {
	t.Parallel()
	s := natstest.ServeWith(t, server.Options{Users: []*server.User{
		{Username: "all"}, {Username: "some", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{stream.ProbeSubject + ".>"}}}},
	}})
	as := func(user string) jetstream.JetStream {
		nc, err := nats.Connect(s.ClientURL(), nats.UserInfo(user, ""), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	all := as("all")
	if err := stream.Ensure(t.Context(), all, stream.NamesWith(""), 1); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	stop := read(t, as("some"), true, func(h stream.Heard) {
		if h.Unproved != nil {
			told <- h.Unproved
		}
	})
	defer stop()
	select {
	case err := <-told:
		if !strings.Contains(err.Error(), "nats-config") {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Error("that it may not probe isn't told")
	}
}
