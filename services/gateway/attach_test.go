package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway/terminal"
)

// TestAttachIsRefused: a terminal is for owners and operators, from where others may ask too, and by no parameters.
func TestAttachIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{
		"dpt_a": {Actor: "token:a", Role: schemas.TokenOwner, Tenant: "acme"}, "dpt_client": {Actor: "token:b", Role: schemas.TokenClient, Tenant: "acme"},
		"dpt_reader": {Actor: "token:c", Role: schemas.TokenReader, Tenant: "acme"}, "dpt_publisher": {Actor: "token:d", Role: schemas.TokenPublisher, Tenant: "acme"},
	})
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		if a.Name != "acme/web" && a.Name != "acme/mute" {
			return nil, schemas.FailedError(schemas.ReasonDenied, "not yours")
		}
		return schemas.View{Name: a.Name, TTY: a.Name == "acme/web", State: schemas.Running}, nil
	})
	const upgrade = "Upgrade: websocket"
	for _, c := range []struct {
		what, path string
		headers    []string
		status     int
	}{
		{"without a WebSocket", "acme.web/attach", nil, http.StatusUpgradeRequired},
		{"without a token", "acme.web/attach", []string{upgrade, "Authorization: "}, http.StatusUnauthorized},
		{"as a client", "acme.web/attach", []string{upgrade, "Authorization: Bearer dpt_client"}, http.StatusForbidden},
		{"as a reader", "acme.web/attach", []string{upgrade, "Authorization: Bearer dpt_reader"}, http.StatusForbidden},
		{"as a publisher", "acme.web/attach", []string{upgrade, "Authorization: Bearer dpt_publisher"}, http.StatusForbidden},
		{"with a token in the URL", "acme.web/attach?token=dpt_a", []string{upgrade}, http.StatusBadRequest},
		{"of another tenant", "other.web/attach", []string{upgrade}, http.StatusForbidden},
		{"without a terminal", "acme.mute/attach", []string{upgrade}, http.StatusConflict},
		{"from another page", "acme.web/attach", []string{upgrade, "Origin: https://evil.example"}, http.StatusForbidden},
		{"with a token for another path", "acme.web", []string{"Authorization: ", "Sec-Websocket-Protocol: diapause.token.dpt_a"}, http.StatusUnauthorized},
	} {
		b.refused(c.what, b.do("GET", prefix+"/sessions/"+c.path, "", c.headers...), c.status)
	}
}

// TestTokenAsSubprotocol: the token that a browser offers lets it in, and comes back in nothing.
func TestTokenAsSubprotocol(t *testing.T) {
	t.Parallel()
	var log lockedText
	b := newBench(t, func(o *Options) { o.Log = logTo(&log) })
	b.isOf(map[string]schemas.WhoAmI{"dpt_secret": {Actor: "token:a", Role: schemas.TokenOwner, Tenant: "acme"}})
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		return schemas.View{Name: a.Name, TTY: true, State: schemas.Exited, Exit: &schemas.Exit{Code: 4}}, nil
	})
	ws, answer, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(b.url, "http")+prefix+"/sessions/acme.web/attach", &websocket.DialOptions{
		Subprotocols: []string{attachProtocol, offersToken + "dpt_secret"},
	})
	b.must(err)
	defer func() { _ = ws.CloseNow() }()
	if got := answer.Header.Values("Sec-Websocket-Protocol"); len(got) != 1 || got[0] != attachProtocol {
		t.Errorf("it answers with the subprotocols %v", got)
	}
	b.must(ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"attach","client":"x","rows":24,"cols":80}`)))
	said := ""
	for err == nil {
		var m []byte
		_, m, err = ws.Read(t.Context())
		said += string(m) + "\n"
	}
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure || !strings.Contains(said, `"type":"ended","exit":{"code":4}`) {
		t.Errorf("it says %s and ends with %v", said, err)
	}
	if strings.Contains(log.String()+said, "secret") {
		t.Errorf("the token is in %s", log.String()+said)
	}
}

// TestCloseIsBounded: a client that answers a close with a message without an end doesn't hold the socket.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	var until time.Time
	closed := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, deadline, err := upgrade(w, r, attachProtocol)
		if err != nil {
			return
		}
		defer close(closed)
		defer func() { _ = ws.CloseNow() }()
		terminal.Serve(r.Context(), ws, terminal.Options{Deadline: func(at time.Time) error {
			until = at
			return deadline(time.Now().Add(100 * time.Millisecond)) // no need to wait for all of it
		}})
	}))
	defer srv.Close()
	var conn net.Conn
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return conn, err
	}}}
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http"), &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte("no first message")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("\x82\xff\x00\x00\x01\x00\x00\x00\x00\x00mask")); err != nil { // the head of one with 2^40 bytes
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(limit):
		t.Fatal("the socket is held")
	}
	if until.IsZero() || time.Until(until) > limit {
		t.Errorf("it may take until %v", until)
	}
}
