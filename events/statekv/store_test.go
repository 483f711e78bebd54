package statekv_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/statekv/statekvtest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

var work = schemas.Name{Tenant: "default", Session: "work"}

func open(t *testing.T, url string) (*statekv.Store, jetstream.JetStream) {
	t.Helper()
	js := natstest.Connect(t, url, nats.ReconnectWait(20*time.Millisecond), nats.MaxReconnects(-1))
	names := stream.NamesWith("")
	if err := stream.Ensure(t.Context(), js, names, 1); err != nil {
		t.Fatal(err)
	}
	s, err := statekv.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	s.Attempt, s.Retry = 300*time.Millisecond, 20*time.Millisecond
	return s, js
}

func newSession() schemas.Transition {
	return schemas.Transition{Type: schemas.TRun, Reason: "test", Actor: "test", Set: schemas.Set{
		New: &schemas.NewSession{UID: "u1", Tenant: "default", Session: "work", Class: "web"}, Op: &schemas.Op{ID: "o1", Kind: schemas.OpStart}, Host: "h",
	}}
}

func mustSwap(t *testing.T, s *statekv.Store, prev statekv.Versioned, tr schemas.Transition) statekv.Versioned {
	t.Helper()
	next, err := s.Swap(t.Context(), prev, tr)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// A store on a real server is what everything that swaps records takes it for.
func TestStore(t *testing.T) {
	statekvtest.Test(t, func(t *testing.T) statekvtest.Records {
		s, _ := open(t, natstest.Serve(t).ClientURL())
		return s
	})
}

// An answer that is lost on the way back, after the write was made: it is found
// by its id, and made once.
func TestSwapWhoseAnswerIsLost(t *testing.T) {
	srv := natstest.Serve(t)
	p := newProxy(t, srv.Addr().String())
	s, _ := open(t, "nats://"+p.addr())
	first := mustSwap(t, s, statekv.Versioned{}, newSession())
	p.swallow()
	time.AfterFunc(500*time.Millisecond, p.cut)
	second := mustSwap(t, s, first, schemas.Transition{Type: schemas.TStarted})
	all, err := s.History(t.Context(), work)
	if err != nil || len(all) != 2 || all[1].Transition.ID != second.Transition.ID || all[1].Rev != second.Rev {
		t.Fatalf("%d revisions, %v", len(all), err)
	}
}

// The same, but before the answer comes someone else writes on top of it.
func TestSwapOvertakenBeforeItsAnswer(t *testing.T) {
	srv := natstest.Serve(t)
	p := newProxy(t, srv.Addr().String())
	s, _ := open(t, "nats://"+p.addr())
	other, _ := open(t, srv.ClientURL())
	first := mustSwap(t, s, statekv.Versioned{}, newSession())
	p.swallow()
	go func() {
		for {
			v, err := other.Get(t.Context(), work)
			if err != nil {
				return // the test is over
			}
			if v.State == schemas.Running {
				if _, err := other.Swap(t.Context(), v, schemas.Transition{Type: schemas.TIdleRule}); err != nil {
					t.Error(err)
				}
				p.cut()
				return
			}
		}
	}()
	got := mustSwap(t, s, first, schemas.Transition{Type: schemas.TStarted})
	if got.Version != 2 {
		t.Errorf("the swap made version %d", got.Version)
	}
}

// With the server away nothing is known, and that is what is said.
func TestSwapUnknown(t *testing.T) {
	srv := natstest.Serve(t)
	s, _ := open(t, srv.ClientURL())
	first := mustSwap(t, s, statekv.Versioned{}, newSession())
	srv.Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Swap(ctx, first, schemas.Transition{Type: schemas.TStarted}); !errors.Is(err, statekv.ErrUnknown) {
		t.Fatalf("%v, want unknown", err)
	}
}

// The bucket has to stay what it was made as: deletes and rollups are refused,
// even from someone who may write to it.
func TestTheLogCannotBeErased(t *testing.T) {
	s, js := open(t, natstest.Serve(t).ClientURL())
	mustSwap(t, s, statekv.Versioned{}, newSession())
	names := stream.NamesWith("")
	msg := nats.NewMsg(names.SessionSubject(work))
	msg.Header.Set("Nats-Rollup", "all")
	if _, err := js.PublishMsg(t.Context(), msg); err == nil {
		t.Error("a rollup of the log was taken")
	}
	st, err := js.Stream(t.Context(), names.SessionStream())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.DeleteMsg(t.Context(), 1); err == nil {
		t.Error("a revision was deleted")
	}
	if _, err := s.Get(t.Context(), work); err != nil {
		t.Errorf("the record is gone: %v", err)
	}
}

// proxy stands between a client and the server and can lose what the server
// answers.
type proxy struct {
	l      net.Listener
	target string
	mu     sync.Mutex
	mute   bool
	conns  []net.Conn
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, target: target}
	go p.serve()
	t.Cleanup(func() { l.Close(); p.cut() })
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, up)
		p.mu.Unlock()
		go p.copy(up, client, func() bool { return false })
		go p.copy(client, up, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.mute })
	}
}

func (p *proxy) copy(to, from net.Conn, lose func() bool) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !lose() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// swallow loses what the server says on the connections that there are.
func (p *proxy) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

// cut closes them, and hears the server again on new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = false
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}
