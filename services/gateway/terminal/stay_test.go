package terminal

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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
