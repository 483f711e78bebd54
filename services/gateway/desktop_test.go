package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway/desktop"
)

// TestDesktopIsRefused: a desktop is for owners and operators, also to watch it, and from where others may ask too.
func TestDesktopIsRefused(t *testing.T) {
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
