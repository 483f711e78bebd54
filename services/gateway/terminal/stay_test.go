package terminal

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// asleep is a session whose looks are states in turn, and which ends then.
type asleep struct{ states []schemas.State }

func (a *asleep) View(context.Context) (schemas.View, error) {
	v := schemas.View{UID: "u", State: schemas.Deleted}
	if len(a.states) > 0 {
		v.State, a.states = a.states[0], a.states[1:]
	}
	return v, nil
}

func (*asleep) Wake(context.Context) (schemas.View, error) {
	return schemas.View{}, errors.New("never")
}

func (*asleep) Dial(context.Context, schemas.View) (net.Conn, error) {
	return nil, errors.New("never")
}

// News has it looked at again at once.
func (*asleep) News(context.Context) (<-chan *schemas.Progress, error) {
	news := make(chan *schemas.Progress)
	close(news)
	return news, nil
}

// serves opens a socket with options, and gives the client's end of it.
func serves(t *testing.T, ctx context.Context, o Options) *websocket.Conn {
	t.Helper()
	o.Problem = func(err error) (any, bool) { return err.Error(), false }
	o.Still = func(context.Context) error { return nil }
	o.Tick, o.WriteWait = time.Hour, time.Minute
	if o.Deadline == nil {
		o.Deadline = func(time.Time) error { return nil }
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws, err := websocket.Accept(w, r, nil); err == nil {
			Serve(ctx, ws, o)
		}
	}))
	t.Cleanup(srv.Close)
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// ends reads all that the client is told.
func ends(t *testing.T, ws *websocket.Conn) (said string, err error) {
	t.Helper()
	for {
		_, m, err := ws.Read(t.Context())
		if err != nil {
			return said, err
		}
		said += string(m) + "\n"
	}
}

// A last screen that can't be read is asked for once for each time that the session sleeps.
func TestLastScreenIsReadOnce(t *testing.T) {
	calls := 0
	ws := serves(t, t.Context(), Options{
		Session: &asleep{[]schemas.State{schemas.Suspended, schemas.Suspended, schemas.Suspended, schemas.Resuming, schemas.Suspended, schemas.Suspended}},
		Watch: &Watch{Last: func(context.Context, schemas.View) (attach.Screen, []byte, error) {
			calls++
			return attach.Screen{}, nil, errors.New("it can't be read")
		}},
	})
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"attach","client":"x"}`)); err != nil {
		t.Fatal(err)
	}
	said, err := ends(t, ws)
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure || calls != 2 {
		t.Errorf("it is asked for %d times; the client is told %s and ends with %v", calls, said, err)
	}
}

// A client whose time is over before it has said anything is told so.
func TestEndBeforeTheFirstMessage(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("its time is over"))
	said, err := ends(t, serves(t, ctx, Options{Session: &asleep{}}))
	if websocket.CloseStatus(err) != websocket.StatusInternalError || !strings.Contains(said, "its time is over") {
		t.Errorf("it is told %q and ends with %v", said, err)
	}
}

// visited is a session that ran when the client came, and was suspended soon after.
type visited struct {
	asleep
	woken atomic.Int32
	join  func(conn net.Conn) // serves a connection; nil has none
}

func (v *visited) Wake(context.Context) (schemas.View, error) {
	v.woken.Add(1)
	return schemas.View{}, nil
}

func (v *visited) Dial(context.Context, schemas.View) (net.Conn, error) {
	if v.join == nil {
		return nil, attach.ErrLost
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		v.join(there)
	}()
	return here, nil
}

// converses answers an attach, and goes on until some input came.
func converses(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		kind, _, err := attach.ReadFrame(in)
		switch {
		case err != nil || kind == attach.FrameStdin && attach.WriteJSON(conn, attach.FrameTaken, attach.Taken{Taken: 1}) == nil:
			return
		case kind == attach.FrameRequest && attach.WriteJSON(conn, attach.FrameStarted, attach.Taken{Screen: true}) != nil:
			return
		}
	}
}

// A client has its session run at most once for one wish: not again when it is suspended after it ran.
func TestOneWishWakesOnce(t *testing.T) {
	states := []schemas.State{schemas.Running}
	for range 30 { // of those that wait for a wish and for news the one or the other goes on
		states = append(states, schemas.Suspended)
	}
	input := append(make([]byte, positionSize), 'x')
	for _, c := range []struct {
		what  string
		first string
		wish  bool // it asks for it while it runs
		join  func(net.Conn)
		wakes int32
	}{
		{"it ran when the client came", `{"type":"attach","client":"x"}`, false, converses, 0},
		{"it is to run, and does", `{"type":"attach","client":"x","asleep":true}`, true, converses, 0},
		{"it was suspended before the client was connected", `{"type":"attach","client":"x"}`, false, nil, 1},
		{"it may sleep", `{"type":"attach","client":"x","asleep":true}`, false, nil, 0},
	} {
		s := &visited{asleep: asleep{slices.Clone(states)}, join: c.join}
		ws := serves(t, t.Context(), Options{Session: s})
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(c.first)); err != nil {
			t.Fatal(err)
		}
		if c.wish {
			if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"wake"}`)); err != nil {
				t.Fatal(err)
			}
		}
		if c.join != nil {
			if err := ws.Write(t.Context(), websocket.MessageBinary, input); err != nil {
				t.Fatal(err)
			}
		}
		said, err := ends(t, ws)
		if got := s.woken.Load(); websocket.CloseStatus(err) != websocket.StatusNormalClosure || got != c.wakes {
			t.Errorf("%s: it is woken %d times; the client is told %s and ends with %v", c.what, got, said, err)
		}
	}
}
