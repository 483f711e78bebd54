package events

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/schemas"
)

func TestAsking(t *testing.T) {
	for _, user := range []string{"", "shop"} { // with one, the server is of before users had subjects
		t.Run("user "+user, func(t *testing.T) { asks(t, user) })
	}
}

func asks(t *testing.T, user string) {
	srv := startServer(t, -1)
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := New(nc, Options{By: "shop", User: user})
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

// A server that knows its callers hears them on a subject of theirs, in errors the hint and
// the reason come apart, and a refused permission has the other subject tried.
func TestAskingAsAUser(t *testing.T) {
	srv := startServer(t, -1)
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	answers := func(subject, payload string, header nats.Header) {
		t.Helper()
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: header, Data: []byte(payload)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	answers(schemas.SubjectAs+".shop.show", `{"name":"web","state":"running"}`, nil)
	answers(schemas.SubjectAs+".shop.kill", `{"code":"state","reason":"exited","error":"it ended","hint":"start it"}`,
		nats.Header{micro.ErrorCodeHeader: {schemas.CodeState}, micro.ErrorHeader: {"it ended; start it"}})
	answers(schemas.SubjectAPI+".list", `[]`, nil)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	api, err := DialAPI(t.Context(), Options{URL: srv.ClientURL(), By: "me", User: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	var v schemas.View
	if err := api.Ask(t.Context(), "show", schemas.Request{Name: "web"}, &v); err != nil || v.State != schemas.Running {
		t.Errorf("show: %+v, %v", v, err)
	}
	var e *schemas.APIError
	if err := api.Ask(t.Context(), "kill", schemas.Request{Name: "web"}, &v); !errors.As(err, &e) || e.Reason != schemas.ReasonExited || e.Text != "it ended" || e.Hint != "start it" {
		t.Errorf("kill: %+v", err)
	}
	var all []schemas.View
	if err := api.Ask(t.Context(), "list", schemas.Request{}, &all); err != nil || all == nil {
		t.Errorf("list: %v, %v", all, err)
	}
	defer func() { // at the end
		srv.Shutdown()
		for range 2 { // the call during which it happens, and each later one
			if err := api.Ask(t.Context(), "show", schemas.Request{}, &v); !errors.Is(err, ErrLost) {
				t.Errorf("without a server: %v", err)
			}
		}
	}()
	if err := api.Ask(t.Context(), "sing", schemas.Request{}, &all); !errors.Is(err, ErrNoServer) || schemas.HintOf(err) == "" {
		t.Errorf("a verb that nothing answers: %v", err)
	}
}

// An answer that was due when the connection broke never comes: the watcher asks again.
func TestWatchingAsksAgain(t *testing.T) {
	line := &line{}
	for name, lose := range map[string]func(*nats.Conn) error{
		"cut": func(*nats.Conn) error { return line.last.Close() }, "made to reconnect": (*nats.Conn).ForceReconnect,
	} {
		t.Run(name, func(t *testing.T) { asksAgain(t, line, lose) })
	}
}

// line dials, and has the last connection that it made.
type line struct {
	last net.Conn
	cut  atomic.Bool
}

func (l *line) Dial(network, address string) (c net.Conn, err error) {
	if l.cut.Load() {
		return nil, errors.New("the line is cut")
	}
	c, err = net.Dial(network, address)
	l.last = c
	return c, err
}

// While there is no connection a request says so at once, and a watcher that would ask waits for one.
func TestAskingWithoutAConnection(t *testing.T) {
	srv, line := startServer(t, -1), &line{}
	c := connect(t, Options{URL: srv.ClientURL(), User: "shop", NATS: []nats.Option{nats.SetCustomDialer(line), nats.ReconnectWait(time.Millisecond)}})
	lost := c.nc.StatusChanged(nats.RECONNECTING)
	line.cut.Store(true)
	if err := line.last.Close(); err != nil {
		t.Fatal(err)
	}
	<-lost
	c.nc.Status() // waits until it is as it said
	var all []schemas.View
	if err := c.API().Ask(t.Context(), "list", schemas.Request{}, &all); !errors.Is(err, ErrNoServer) {
		t.Errorf("asked without a connection: %v", err)
	}
	views, ended := make(chan schemas.View, 10), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- c.WatchSessions(ctx, "*/*", func(v schemas.View) { views <- v }) }()
	server, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, err = server.Subscribe(schemas.SubjectAs+".shop.list", func(m *nats.Msg) { _ = m.Respond([]byte(`[{"name":"acme/web","state":"running"}]`)) })
	if err := errors.Join(err, server.Flush()); err != nil {
		t.Fatal(err)
	}
	line.cut.Store(false)
	select {
	case <-views:
	case err := <-ended:
		t.Fatalf("the watcher ended: %v", err)
	case <-time.After(patience):
		t.Fatal("nothing is shown")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func asksAgain(t *testing.T, line *line, lose func(*nats.Conn) error) {
	srv := startServer(t, -1)
	c := connect(t, Options{URL: srv.ClientURL(), NATS: []nats.Option{nats.SetCustomDialer(line), nats.ReconnectWait(time.Millisecond)}})
	server, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	asked := make(chan *nats.Msg, 10)
	_, err = server.ChanSubscribe(schemas.SubjectAPI+".list", asked)
	if err := errors.Join(err, server.Flush()); err != nil {
		t.Fatal(err)
	}
	views, ended := make(chan schemas.View, 10), make(chan error, 1)
	ask := func() (m *nats.Msg) {
		t.Helper()
		select {
		case m = <-asked:
		case <-time.After(patience):
			t.Fatal("it doesn't ask for the sessions")
		}
		return m
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- c.WatchSessions(ctx, "*/*", func(v schemas.View) { views <- v }) }()
	ask() // not answered
	if err := lose(c.nc); err != nil {
		t.Fatal(err)
	}
	if err := ask().Respond([]byte(`[{"name":"acme/web","state":"running"}]`)); err != nil {
		t.Fatal(err)
	}
	select {
	case v := <-views:
		if v.Name != "acme/web" {
			t.Errorf("shown: %+v", v)
		}
	case <-time.After(patience):
		t.Error("the answer isn't shown")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A request with a token is never asked as this client's own: not even where no server knows tokens.
func TestAskingWithAToken(t *testing.T) {
	srv := startServer(t, -1)
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, own := range []string{schemas.SubjectAs, schemas.SubjectAPI} {
		if _, err := nc.Subscribe(own+".>", func(m *nats.Msg) {
			t.Errorf("asked on %s with %v", m.Subject, m.Header)
			_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Data: []byte(`{}`)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	c := New(nc, Options{User: "gateway"})
	defer c.Close()
	var v schemas.View
	for _, token := range []string{"dpt_a", ""} {
		if err := c.API().Ask(WithToken(t.Context(), token), "show", schemas.Request{}, &v); !errors.Is(err, ErrNoServer) {
			t.Errorf("where no server knows tokens: %v", err)
		}
	}
	tokens := make(chan string, 1)
	if _, err := nc.Subscribe(schemas.SubjectBearer+".show", func(m *nats.Msg) {
		tokens <- m.Header.Get(schemas.HeaderToken)
		_ = nc.PublishMsg(&nats.Msg{Subject: m.Reply, Data: []byte(`{"name":"web"}`)})
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.API().Ask(WithToken(t.Context(), "dpt_a"), "show", schemas.Request{}, &v); err != nil || v.Name != "web" {
		t.Errorf("where one does: %+v, %v", v, err)
	}
	if got := <-tokens; got != "dpt_a" {
		t.Errorf("the server got the token %q", got)
	}
}
