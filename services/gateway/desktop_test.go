package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway/desktop"
)

// TestDesktopIsRefused: a desktop is for owners and operators, also to watch it, and from where others may ask too.
func TestDesktopIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{
		"dpt_a": {Actor: "token:a", Role: schemas.TokenOwner, Tenant: "acme"}, "dpt_client": {Actor: "token:b", Role: schemas.TokenClient, Tenant: "acme"},
		"dpt_reader": {Actor: "token:c", Role: schemas.TokenReader, Tenant: "acme"}, "dpt_publisher": {Actor: "token:d", Role: schemas.TokenPublisher, Tenant: "acme"},
	})
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		if a.Name != "acme/web" {
			return nil, schemas.FailedError(schemas.ReasonDenied, "not yours")
		}
		return schemas.View{Name: a.Name, State: schemas.Running}, nil
	})
	const upgrade = "Upgrade: websocket"
	for _, c := range []struct {
		what, path string
		headers    []string
		status     int
	}{
		{"without a WebSocket", "acme.web/desktop", nil, http.StatusUpgradeRequired},
		{"without a token", "acme.web/desktop", []string{upgrade, "Authorization: "}, http.StatusUnauthorized},
		{"as a client", "acme.web/desktop", []string{upgrade, "Authorization: Bearer dpt_client"}, http.StatusForbidden},
		{"as a reader", "acme.web/desktop", []string{upgrade, "Authorization: Bearer dpt_reader"}, http.StatusForbidden},
		{"as a reader who watches", "acme.web/desktop?view=true", []string{upgrade, "Authorization: Bearer dpt_reader"}, http.StatusForbidden},
		{"as a publisher", "acme.web/desktop", []string{upgrade, "Authorization: Bearer dpt_publisher"}, http.StatusForbidden},
		{"with a token in the URL", "acme.web/desktop?token=dpt_a", []string{upgrade}, http.StatusBadRequest},
		{"to watch perhaps", "acme.web/desktop?view=perhaps", []string{upgrade}, http.StatusBadRequest},
		{"to watch, and not", "acme.web/desktop?view=true&view=false", []string{upgrade}, http.StatusBadRequest},
		{"of another tenant", "other.web/desktop", []string{upgrade}, http.StatusForbidden},
		{"from another page", "acme.web/desktop", []string{upgrade, "Origin: https://evil.example"}, http.StatusForbidden},
	} {
		b.refused(c.what, b.do("GET", prefix+"/sessions/"+c.path, "", c.headers...), c.status)
	}
}

// TestDesktopAsleep: who looks at a desktop that sleeps is told so, and wakes nothing; the token comes back in nothing.
func TestDesktopAsleep(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{"dpt_secret": {Actor: "token:a", Role: schemas.TokenOwner, Tenant: "acme"}})
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		return schemas.View{Name: a.Name, State: schemas.Suspended}, nil
	})
	b.answers("ensure", func(asked) (any, *schemas.APIError) {
		t.Error("looking wakes it")
		return schemas.View{}, nil
	})
	ws, answer, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(b.url, "http")+prefix+"/sessions/acme.web/desktop?view=true", &websocket.DialOptions{
		Subprotocols: []string{desktop.Protocol, offersToken + "dpt_secret"},
	})
	b.must(err)
	defer func() { _ = ws.CloseNow() }()
	if got := answer.Header.Values("Sec-Websocket-Protocol"); len(got) != 1 || got[0] != desktop.Protocol {
		t.Errorf("it answers with the subprotocols %v", got)
	}
	_, m, err := ws.Read(t.Context())
	if err != nil || !strings.Contains(string(m), `"state":"suspended"`) {
		t.Errorf("it says %s, %v", m, err)
	}
	if _, m, err = ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("it says %s, and ends with %v", m, err)
	}
}

// TestDesktopOfPrivateNetwork: who may not reach a port by HTTP, as one of the host's, reaches no desktop there. Else keys and
// pointers are activity of the kind input, whose reason names their caller.
func TestDesktopOfPrivateNetwork(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{"dpt_secret": {Actor: "token:a", Role: schemas.TokenOwner, Tenant: "acme"}})
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		return schemas.View{Name: a.Name, UID: "u", State: schemas.Running, Host: "h"}, nil
	})
	b.answers("reach", func(a asked) (any, *schemas.APIError) {
		if a.token != "dpt_secret" || a.Reach.Port != desktop.Port || a.Reach.Page || a.Name != "acme/web" {
			return nil, schemas.FailedError(schemas.ReasonDenied, "session %s may share its host's network", a.Name)
		}
		return schemas.Reach{Port: a.Reach.Port}, nil
	})
	said, err := b.nc.SubscribeSync(schemas.ActivitySubject(schemas.Name{Tenant: "acme", Session: "web"}, schemas.KindInput, ""))
	b.must(err)
	l, err := tunnel.Listen(b.nc, schemas.SubjectHost+".h.dial")
	b.must(err)
	defer l.Close()
	b.must(b.nc.Flush())
	opens := func(session string) *websocket.Conn {
		ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(b.url, "http")+prefix+"/sessions/"+session+"/desktop", &websocket.DialOptions{
			Subprotocols: []string{desktop.Protocol, offersToken + "dpt_secret"},
		})
		b.must(err)
		t.Cleanup(func() { _ = ws.CloseNow() })
		return ws
	}
	hears := func(ws *websocket.Conn, want string) {
		t.Helper()
		if _, m, err := ws.Read(t.Context()); err != nil || !strings.Contains(string(m), want) {
			t.Fatalf("it says %s, %v: want %s", m, err, want)
		}
	}
	hears(opens("acme.host"), `"status":403`)

	ws := opens("acme.web")
	conn, err := l.Accept(t.Context())
	b.must(err)
	defer conn.Close()
	if r, err := attach.ReadRequest(conn); err != nil || r.Op != attach.OpForward || r.Port != desktop.Port {
		t.Errorf("the host is asked for %+v, %v", r, err)
	}
	b.must(attach.WriteFrame(conn, attach.FrameStarted, nil))
	b.must(attach.WriteFrame(conn, attach.FrameStdout, []byte("RFB 003.008\n")))
	hears(ws, `"attached"`)
	hears(ws, "RFB 003.008\n")
	b.must(ws.Write(t.Context(), websocket.MessageBinary, []byte("RFB 003.008\n\x01\x00"+"\x04\x01\x00\x00\x00\x00\x00a")))
	m, err := said.NextMsg(limit)
	b.must(err)
	var a schemas.Activity
	if b.must(json.Unmarshal(m.Data, &a)); a.Reason != "its desktop is used by token:a" {
		t.Errorf("it says %s", m.Data)
	}
}
