package events

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/schemas"
)

func TestAsking(t *testing.T) {
	srv := startServer(t, -1)
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := New(nc, Options{By: "shop"})
	defer c.Close()
	s := sessionOf(t, c, "acme/web")
	if _, err := s.Ensure(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("without anyone who answers: %v", err)
	}
	_, err = nc.Subscribe(schemas.SubjectAPI+".*", func(m *nats.Msg) {
		var req schemas.Request
		if err := json.Unmarshal(m.Data, &req); err != nil || req.Name != "acme/web" || req.Actor != "shop" || req.Wait <= 0 {
			t.Errorf("asked %s", m.Data)
		}
		answer := nats.NewMsg(m.Reply)
		if why := map[string]string{"ensure": "the demo", "suspend": "night", "checkpoint": ""}[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]; req.Reason != why {
			t.Errorf("asked %s for the reason %q, want %q", m.Subject, req.Reason, why)
		}
		if strings.HasSuffix(m.Subject, "suspend") {
			answer.Header = nats.Header{micro.ErrorCodeHeader: {schemas.CodeState}, micro.ErrorHeader: {"it is in use"}}
		} else {
			answer.Data = []byte(`{"name":"acme/web","state":"running"}`)
		}
		if err := nc.PublishMsg(answer); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Ensure(t.Context(), Because("the demo")); err != nil || v.State != schemas.Running {
		t.Errorf("ensure: %+v, %v", v, err)
	}
	if v, err := s.Checkpoint(t.Context(), "before the upgrade", "run-7"); err != nil || v.Name != "acme/web" {
		t.Errorf("checkpoint: %+v, %v", v, err)
	}
	var refused *schemas.APIError
	if _, err := s.Suspend(t.Context(), "night"); !errors.As(err, &refused) || refused.Code != schemas.CodeState {
		t.Errorf("suspend: %v", err)
	}
}

func TestWatching(t *testing.T) {
	srv := startServer(t, -1)
	c := connect(t, Options{URL: srv.ClientURL()})
	if err := c.Watch(t.Context(), "a b", nil); err == nil {
		t.Error("a name with a space is watched")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, versions := make(chan error, 1), make(chan uint64, 10)
	go func() {
		ended <- c.Watch(ctx, "acme/*", func(r schemas.SessionRecord) { versions <- r.Version })
	}()
	// Until it listens, what is published is missed.
	for seen := false; !seen; {
		_ = c.nc.Publish("diapause.v1.session.acme.web", []byte(`{"version":7}`))
		_ = c.nc.Publish("diapause.v1.session.other.web", []byte(`{"version":8}`))
		select {
		case v := <-versions:
			if seen = true; v != 7 {
				t.Errorf("heard version %d, want 7", v)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("watching ended with %v", err)
	}
}
