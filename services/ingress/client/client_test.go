package client

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// limit bounds all that is waited for.
const limit = time.Minute

var (
	web = schemas.Name{Tenant: "acme", Session: "web"}
	why = ingress.Why{Class: ingress.Fetch, Method: "GET", Path: "/", Port: 80, Caller: "ann"}
)

// system is a NATS server with something that answers verbs on it, and hears activity.
type system struct {
	t  *testing.T
	at *server.Server
	nc *nats.Conn

	mu    sync.Mutex
	asked []schemas.Request
	heard []string // subjects of activity, with + for an end
}

func newSystem(t *testing.T, at *server.Server, answer func(verb string, n int, m *nats.Msg) *nats.Msg) *system {
	t.Helper()
	nc, err := nats.Connect(at.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := &system{t: t, at: at, nc: nc}
	subscribe := func(subject string, f nats.MsgHandler) {
		if _, err := nc.Subscribe(subject, f); err != nil {
			t.Fatal(err)
		}
	}
	subscribe(schemas.SubjectAPI+".*", func(m *nats.Msg) {
		var r schemas.Request
		if err := json.Unmarshal(m.Data, &r); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.asked = append(s.asked, r)
		n := len(s.asked)
		s.mu.Unlock()
		if a := answer(strings.TrimPrefix(m.Subject, schemas.SubjectAPI+"."), n, m); a != nil {
			if err := m.RespondMsg(a); err != nil {
				t.Error(err)
			}
		}
	})
	subscribe(schemas.SubjectActivity+".>", func(m *nats.Msg) {
		var a schemas.Activity
		if err := json.Unmarshal(m.Data, &a); err != nil || !a.Released && a.Reason != why.String() {
			t.Errorf("heard %s: %s", m.Subject, m.Data)
		}
		kind := strings.Split(strings.TrimPrefix(m.Subject, schemas.SubjectActivity+".acme.web."), ".")[0]
		if a.Released {
			kind += " ends"
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heard = append(s.heard, kind)
	})
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *system) requests() []schemas.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// all gives what was heard.
func (s *system) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.heard, ", ")
}

func (s *system) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited too long until %s; heard %s", what, s.all())
		}
	}
}

func running() *nats.Msg {
	return &nats.Msg{Data: []byte(`{"name":"acme/web","uid":"u1","state":"running","host":"h"}`)}
}

func failed(code string, why schemas.Reason) *nats.Msg {
	data, _ := json.Marshal(&schemas.APIError{Code: code, Reason: why, Text: "no"})
	return &nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {"no"}}, Data: data}
}

func sessions(t *testing.T, url func() string) *Sessions {
	s := New(func() (events.Options, error) { return events.Options{URL: url(), By: "ingress"}, nil })
	t.Cleanup(s.Close)
	return s
}

// What passes by itself is asked again until it has, a lost answer too; the rest isn't.
func TestEnsure(t *testing.T) {
	at := natstest.Serve(t)
	lost := make(chan struct{})
	sys := newSystem(t, at, func(verb string, n int, _ *nats.Msg) *nats.Msg {
		switch {
		case verb != "ensure":
			t.Errorf("asked %s", verb)
		case n == 1:
			return failed(schemas.CodeState, schemas.ReasonConflict)
		case n == 2:
			close(lost)
			return nil // it never comes
		case n == 4:
			return failed(schemas.CodeState, schemas.ReasonExited)
		}
		return running()
	})
	s := sessions(t, at.ClientURL)
	go func() {
		<-lost
		c, err := s.connected()
		if err == nil {
			err = c.API().Conn().ForceReconnect()
		}
		if err != nil {
			t.Error(err)
		}
	}()
	v, err := s.Ensure(t.Context(), web, why)
	if asked := sys.requests(); err != nil || v.UID != "u1" || len(asked) != 3 || asked[2].Name != "acme/web" || asked[2].Reason != why.String() || asked[2].Actor != "ingress" {
		t.Errorf("it gives %+v, %v after %+v", v, err, asked)
	}
	if _, err := s.Ensure(t.Context(), web, why); schemas.ReasonOf(err) != schemas.ReasonExited || len(sys.requests()) != 4 {
		t.Errorf("a session that has ended gives %v after %+v", err, sys.requests())
	}
}

// A hold is a lease until it is released, and no activity where Ensure was just that.
func TestHold(t *testing.T) {
	at := natstest.Serve(t)
	sys := newSystem(t, at, func(string, int, *nats.Msg) *nats.Msg { return running() })
	s := sessions(t, at.ClientURL)
	if _, err := s.Ensure(t.Context(), web, why); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	if s.said[web].IsZero() {
		t.Error("it isn't known that Ensure is activity")
	}
	s.said[web] = time.Now().Add(limit) // this test may be slow
	s.mu.Unlock()
	release := s.Hold(web, why, true)
	second := s.Hold(web, why, true)
	sys.until("the lease is heard", func() bool { return strings.HasPrefix(sys.all(), "presence") })
	release()
	release()
	if got := sys.all(); strings.Contains(got, "http") || strings.Contains(got, "ends") {
		t.Errorf("heard %s", got)
	}
	s.mu.Lock()
	s.said[web] = time.Now().Add(-every) // it is a while ago
	s.mu.Unlock()
	second()
	sys.until("the end of the lease is heard, and that it was activity", func() bool {
		return strings.Contains(sys.all(), "presence ends") && strings.Contains(sys.all(), "http")
	})
	s.Hold(schemas.Name{Tenant: "acme", Session: "quiet"}, why, false)()
	if got := sys.all(); strings.Count(got, "http") != 1 {
		t.Errorf("heard %s", got)
	}
}

// A session is looked at by its name or its uid.
func TestLook(t *testing.T) {
	at := natstest.Serve(t)
	newSystem(t, at, func(verb string, _ int, _ *nats.Msg) *nats.Msg {
		if verb == "list" {
			return &nats.Msg{Data: append(append([]byte{'['}, running().Data...), ']')}
		}
		return running()
	})
	s := sessions(t, at.ClientURL)
	for _, target := range []ingress.Target{{Name: web}, {UID: "u1"}} {
		if v, err := s.Look(t.Context(), target); err != nil || v.Name != "acme/web" {
			t.Errorf("%+v gives %+v, %v", target, v, err)
		}
	}
	if _, err := s.Look(t.Context(), ingress.Target{UID: "u2"}); schemas.CodeOf(err) != schemas.CodeNoSession {
		t.Errorf("a uid of none gives %v", err)
	}
	if _, err := s.Dial(t.Context(), schemas.View{Name: "acme/web", Host: "h"}, 80); err == nil || errors.Is(err, ingress.ErrRefused) {
		t.Errorf("a host that isn't there gives %v", err)
	}
}

// The server may come back at another address.
func TestElsewhere(t *testing.T) {
	first, second := natstest.Serve(t), natstest.Serve(t)
	newSystem(t, first, func(string, int, *nats.Msg) *nats.Msg { return running() })
	newSystem(t, second, func(string, int, *nats.Msg) *nats.Msg { return running() })
	var mu sync.Mutex
	url := first.ClientURL()
	s := sessions(t, func() string { mu.Lock(); defer mu.Unlock(); return url })
	if _, err := s.Ensure(t.Context(), web, why); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	url = second.ClientURL()
	mu.Unlock()
	first.Shutdown()
	if _, err := s.Ensure(t.Context(), web, why); err != nil {
		t.Errorf("after the server has moved: %v", err)
	}
}
