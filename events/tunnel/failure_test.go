package tunnel

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func TestNoListener(t *testing.T) {
	nc := connect(t, startServer(t))
	if _, err := Dial(t.Context(), nc, subject, nil); !errors.Is(err, ErrNoListener) {
		t.Errorf("dial: %v, want ErrNoListener", err)
	}
	eventually(t, "the inbox was given back", func() bool { return nc.NumSubscriptions() == 0 })
}

func TestDialEndsWithItsContext(t *testing.T) {
	nc := connect(t, startServer(t))
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	if _, err := nc.Subscribe(subject, func(*nats.Msg) { once() }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := Dial(ctx, nc, subject, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("dial: %v, want context.Canceled", err)
	}
	eventually(t, "the inbox was given back", func() bool { return nc.NumSubscriptions() == 1 })
}

func TestAnotherVersionIsRefused(t *testing.T) {
	s := startServer(t)
	l, err := Listen(connect(t, s), subject)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m, err := connect(t, s).Request(subject, []byte("DIATUN\x02hello"), patience)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFrame(m.Data)
	if err != nil || f.kind != kindAbort || !strings.Contains(string(f.payload), "version") {
		t.Errorf("answer %v %q (%v), want an abort that names the version", f.kind, f.payload, err)
	}
}

// bothAsked gives two listeners that both get each request to subject.
func bothAsked(t *testing.T, s *server.Server) [2]*Listener {
	t.Helper()
	var both [2]*Listener
	for i, elsewhere := range []string{"test.one", "test.two"} {
		l, err := listen(connect(t, s), elsewhere, hasty())
		if err != nil {
			t.Fatal(err)
		}
		// Without the queue group every listener gets the request.
		if _, err := l.nc.Subscribe(subject, l.handshake); err != nil {
			t.Fatal(err)
		}
		if err := l.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		both[i] = l
	}
	return both
}

func TestOneListenerOfTwoThatAnswerAccepts(t *testing.T) {
	s := startServer(t)
	both := bothAsked(t, s)
	d, err := dial(t.Context(), connect(t, s), subject, nil, hasty())
	if err != nil {
		t.Fatal(err)
	}
	var c *Conn
	other := both[0]
	select {
	case c = <-both[0].conns:
		other = both[1]
	case c = <-both[1].conns:
	case <-time.After(patience):
		t.Fatal("neither listener accepted")
	}
	eventually(t, "the other listener gave its end back", func() bool { return other.nc.NumSubscriptions() == 2 })
	if len(other.conns) != 0 {
		t.Error("the other listener accepted as well")
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(d, make([]byte, 1)); err != nil {
		t.Errorf("read from the listener that accepted: %v", err)
	}
}

func TestALostRequestIsRepeated(t *testing.T) {
	s := startServer(t)
	nc, listenNC := connect(t, s), connect(t, s)
	listeners := make(chan *Listener, 1)
	// This one takes the request and dies; by then there is a good one.
	_, err := nc.QueueSubscribe(subject, queue, func(m *nats.Msg) {
		l, err := Listen(listenNC, subject)
		if err != nil || m.Sub.Unsubscribe() != nil || nc.Flush() != nil {
			close(listeners)
			return
		}
		listeners <- l
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	d, err := Dial(t.Context(), connect(t, s), subject, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, ok := <-listeners
	if !ok {
		t.Fatal("the good listener did not start")
	}
	if _, err := l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestACancelledDialIsNeverAccepted(t *testing.T) {
	s := startServer(t)
	l, err := listen(connect(t, s), subject, hasty())
	if err != nil {
		t.Fatal(err)
	}
	nc := connect(t, s)
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(subject, inbox.Subject, []byte(magic)); err != nil {
		t.Fatal(err)
	}
	if _, err := inbox.NextMsg(patience); err != nil {
		t.Fatal(err)
	}
	nc.Close() // without having opened the connection
	eventually(t, "the listener gave its end back", func() bool { return l.nc.NumSubscriptions() == 1 })
	if len(l.conns) != 0 {
		t.Error("the connection was offered to Accept")
	}
}

func TestALostMessageEndsTheConnection(t *testing.T) {
	e := open(t, hasty())
	if _, err := e.dialer.Write([]byte("before")); err != nil {
		t.Fatal(err)
	}
	e.dialer.mu.Lock()
	e.dialer.sentFrames++ // as if one message had been dropped
	e.dialer.mu.Unlock()
	// Nothing more is written: the next ping has to give it away.
	got, err := io.ReadAll(e.accepted)
	if !errors.Is(err, ErrLost) || string(got) != "before" {
		t.Errorf("read %q, %v; want what came before and ErrLost", got, err)
	}
	if _, err := e.dialer.Read(make([]byte, 1)); !errors.Is(err, ErrAborted) {
		t.Errorf("the other end: %v, want ErrAborted", err)
	}
}

func TestARepeatedMessageEndsTheConnection(t *testing.T) {
	e := open(t, usualTempo())
	again := frame{kind: kindData, conn: e.accepted.id, number: 1, payload: []byte("x")}
	if _, err := e.dialer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := e.dialerNC.Publish(e.accepted.local, again.append(nil)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(e.accepted); !errors.Is(err, ErrLost) || string(got) != "x" {
		t.Errorf("read %q, %v; want one x and ErrLost", got, err)
	}
}

func TestAPeerThatBreaksTheRulesIsCutOff(t *testing.T) {
	for name, frames := range map[string][]frame{
		"more than the window": overfull(),
		"credit for nothing":   {{kind: kindCredit, payload: binary.BigEndian.AppendUint64(nil, 1)}},
		"malformed credit":     {{kind: kindCredit, payload: []byte("x")}},
		"opened twice":         {{kind: kindOpen}},
		"data after the end":   {{kind: kindCloseWrite}, {kind: kindData, payload: []byte("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, usualTempo())
			for _, f := range frames {
				e.dialer.mu.Lock()
				err := e.dialer.send(f.kind, f.payload)
				e.dialer.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := e.dialer.Read(make([]byte, 1)); !errors.Is(err, ErrAborted) {
				t.Errorf("read: %v, want ErrAborted", err)
			}
		})
	}
}

func overfull() []frame {
	var frames []frame
	for range Window/(16<<10) + 1 {
		frames = append(frames, frame{kind: kindData, payload: make([]byte, 16<<10)})
	}
	return frames
}

func TestStrayMessagesAreIgnored(t *testing.T) {
	e := open(t, usualTempo())
	for _, stray := range [][]byte{nil, []byte("x"), frame{kind: kindData, number: 0, payload: []byte("evil")}.append(nil)} {
		if err := e.dialerNC.Publish(e.accepted.local, stray); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.dialer.Write([]byte("good")); err != nil {
		t.Fatal(err)
	}
	if err := e.dialer.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(e.accepted); err != nil || string(got) != "good" {
		t.Errorf("read %q, %v; want what the peer wrote alone", got, err)
	}
}

func TestAPeerWhoseConnectionDiesIsNoticed(t *testing.T) {
	e := open(t, hasty())
	e.listenNC.Close()
	if _, err := e.dialer.Read(make([]byte, 1)); !errors.Is(err, ErrGone) {
		t.Errorf("the end that is left: read %v, want ErrGone", err)
	}
	if _, err := e.dialer.Write([]byte("x")); !errors.Is(err, ErrGone) {
		t.Errorf("the end that is left: write %v, want ErrGone", err)
	}
	if _, err := e.accepted.Read(make([]byte, 1)); !errors.Is(err, ErrGone) {
		t.Errorf("the end that died: read %v, want ErrGone", err)
	}
	if _, err := e.listener.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("its listener: %v, want net.ErrClosed", err)
	}
}

func TestAPeerThatFallsSilentIsNoticed(t *testing.T) {
	e := open(t, hasty())
	// The inbox stays, so the server has nothing to say; only the silence tells.
	e.accepted.mu.Lock()
	e.accepted.beat.Stop()
	e.accepted.mu.Unlock()
	_, err := e.dialer.Read(make([]byte, 1))
	if !errors.Is(err, ErrGone) {
		t.Errorf("read: %v, want ErrGone", err)
	}
}

func TestAnIdleConnectionStays(t *testing.T) {
	tm := hasty()
	e := open(t, tm)
	before := e.listenNC.Stats().InMsgs
	eventually(t, "pings came for longer than the patience", func() bool {
		return e.listenNC.Stats().InMsgs > before+uint64(3*tm.patience)
	})
	if _, err := e.dialer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(e.accepted, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestReconnectWithoutLossGoesOn(t *testing.T) {
	hold := make(chan struct{})
	e := open(t, usualTempo(), reconnectAfter(hold))
	reconnect(t, e, hold, func() {})
	if _, err := e.dialer.Write([]byte("after")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(e.accepted, make([]byte, 5)); err != nil {
		t.Errorf("read after the reconnect: %v", err)
	}
}

func TestReconnectWithLossEndsTheConnection(t *testing.T) {
	hold := make(chan struct{})
	e := open(t, usualTempo(), reconnectAfter(hold))
	reconnect(t, e, hold, func() {
		if _, err := e.dialer.Write([]byte("lost")); err != nil {
			t.Fatal(err)
		}
		if err := e.dialerNC.Flush(); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := e.dialer.Write([]byte("after")); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(e.accepted); !errors.Is(err, ErrLost) || len(got) != 0 {
		t.Errorf("read %q, %v; want nothing and ErrLost", got, err)
	}
}

func reconnectAfter(hold <-chan struct{}) nats.Option {
	return nats.CustomReconnectDelay(func(int) time.Duration { <-hold; return 0 })
}

// reconnect cuts the listener's NATS connection and runs meanwhile before it
// closes hold and waits until the connection is back.
func reconnect(t *testing.T, e *ends, hold chan struct{}, meanwhile func()) {
	t.Helper()
	back := make(chan struct{})
	e.listenNC.SetReconnectHandler(func(*nats.Conn) { close(back) })
	id, err := e.listenNC.GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.server.DisconnectClientByID(id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server dropped the subscriptions", func() bool { return e.server.NumClients() == 1 })
	meanwhile()
	close(hold)
	select {
	case <-back:
	case <-time.After(patience):
		t.Fatal("the NATS connection did not come back")
	}
	if err := e.listenNC.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestCustomInboxPrefixIsTheOnlyRightItNeeds(t *testing.T) {
	s := startServer(t)
	prefix := nats.CustomInboxPrefix("_INBOX_mine")
	l, err := Listen(connect(t, s, prefix), subject)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := Dial(t.Context(), connect(t, s, prefix), subject, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, a := range []net.Addr{d.LocalAddr(), d.RemoteAddr()} {
		if !strings.HasPrefix(a.String(), "_INBOX_mine.") {
			t.Errorf("address %s is outside of the custom prefix", a)
		}
	}
}

func TestClosedListenerTurnsWaitingConnectionsAway(t *testing.T) {
	s := startServer(t)
	l, err := Listen(connect(t, s), subject)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Dial(t.Context(), connect(t, s), subject, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, ErrAborted) {
		t.Errorf("read: %v, want ErrAborted", err)
	}
	if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v, want net.ErrClosed", err)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	e := open(t, hasty())
	for range 50 {
		d, err := dial(t.Context(), e.dialerNC, subject, nil, hasty())
		if err != nil {
			t.Fatal(err)
		}
		a, err := e.listener.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.SetDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		d.Close()
		a.Close()
	}
	e.dialer.Close()
	e.accepted.Close()
	e.listener.Close()
	eventually(t, "all subscriptions were given back", func() bool {
		return e.dialerNC.NumSubscriptions()+e.listenNC.NumSubscriptions() == 0
	})
	eventually(t, "no goroutine of a subscription is left", func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "waitForMsgs")
	})
}
