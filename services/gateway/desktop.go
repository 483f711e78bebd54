package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway/desktop"
	"github.com/diapause/diapause/services/gateway/terminal"
)

// desktops are the operations on desktops of sessions.
type desktops struct{ gate *Gateway }

// operations has the WebSocket of a desktop in the document, and answers it.
func (d desktops) operations(mux *http.ServeMux) {
	op := route{id: "desktop", method: "GET", path: "/sessions/{session}/desktop", tag: "live", summary: "Use a session's desktop over a WebSocket", status: http.StatusSwitchingProtocols}.operation()
	op.Extensions = nil // it is more than a verb
	registry := d.gate.doc.OpenAPI().Components.Schemas
	message := registry.Schema(typeOf[terminal.Message](), true, "")
	op.Description = "A WebSocket with the subprotocol `" + desktop.Protocol + "`. Binary messages are RFB (RFC 6143, 3.7 or 3.8, security type None) of the VNC server in the session. " +
		"Text messages of the server are a Message (" + message.Ref + ") of the types state, stage, attached and error: after attached the desktop speaks. A client's text messages are " +
		"{\"type\":\"visible\",\"visible\":false}: while no one sees it, the socket is no use of the session. The token has the role owner or operator, and may be offered as for a terminal (" + attachPath + ")."
	text, flag := &huma.Schema{Type: "string"}, &huma.Schema{Type: "boolean", Default: false}
	op.Parameters = []*huma.Param{
		{Name: "session", In: "path", Required: true, Schema: text, Description: "TENANT.ID, or ID for the tenant default"},
		{Name: "view", In: "query", Schema: flag, Description: "Watch alone: no keys, pointers, clipboard or sizes reach the session"},
		{Name: "wake", In: "query", Schema: flag, Description: "Resume the session if it is suspended, which is activity"},
		{Name: "Sec-WebSocket-Protocol", In: "header", Schema: text, Description: desktop.Protocol},
	}
	op.Responses = map[string]*huma.Response{
		"101": {Description: "The WebSocket"},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{
			problemType: {Schema: registry.Schema(typeOf[Problem](), true, "")},
		}},
	}
	d.gate.doc.OpenAPI().AddOperation(&op)
	mux.HandleFunc("GET "+op.Path, d.serve)
}

// asksDesktop is what a request for a desktop says in its URL.
type asksDesktop struct{ view, wake bool }

func (a *asksDesktop) read(q url.Values) *Problem {
	flags := map[string]*bool{"view": &a.view, "wake": &a.wake}
	for name, values := range q {
		flag := flags[name]
		if flag == nil {
			return refusal(http.StatusBadRequest, fmt.Sprintf("a desktop takes no parameter %.40q", name), "it takes view and wake")
		}
		var err error
		if *flag, err = strconv.ParseBool(values[0]); err != nil || len(values) > 1 {
			return refusal(http.StatusBadRequest, fmt.Sprintf("parameter %s: want true or false", name), "")
		}
	}
	return nil
}

// serve answers with a desktop.
func (d desktops) serve(w http.ResponseWriter, r *http.Request) {
	me, ok := d.gate.who(w, r)
	if !ok {
		return
	}
	s := &seat{of: &bearers{Gateway: d.gate, name: OfSession{Session: r.PathValue("session")}.name()}, caller: me.Actor}
	var asks asksDesktop
	if p := s.refuses(r, me, &asks); p != nil {
		p.write(w)
		return
	}
	streams := d.gate.streams
	ctx, end, p := streams.begin(r.Context(), me.Actor)
	if p != nil {
		p.write(w)
		return
	}
	defer end()
	ws, deadline, err := upgrade(w, r, desktop.Protocol)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = ws.CloseNow() }()
	s.fresh = asks.wake
	desktop.Serve(ctx, ws, desktop.Options{
		Session: s, Watch: asks.view, Wake: asks.wake, Use: s, Tick: streams.keepAlive, WriteWait: streams.writeWait, Deadline: deadline,
		Problem: func(err error) (any, bool) {
			p := problem(err)
			return p, p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
		},
		Still: func(ctx context.Context) error {
			if p := d.gate.still(ctx, me); p != nil {
				return p
			}
			return nil
		},
	})
}

// seat is a session as the bearer of a token reaches its desktop.
type seat struct {
	of     *bearers
	caller string
	fresh  bool // a person has asked to connect, and the page not by itself

	mu   sync.Mutex // guards last
	last time.Time  // when input was said
}

// refuses says why a request gets no desktop.
func (s *seat) refuses(r *http.Request, me schemas.WhoAmI, asks *asksDesktop) *Problem {
	if me.Role != schemas.TokenOwner && me.Role != schemas.TokenOperator {
		return refusal(http.StatusForbidden, fmt.Sprintf("a token with the role %s gets no desktop", me.Role), "one with the role owner does")
	}
	if p := asks.read(r.URL.Query()); p != nil {
		return p
	}
	if _, err := s.View(r.Context()); err != nil {
		return problem(err)
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return refusal(http.StatusUpgradeRequired, "a desktop takes a WebSocket", "see the description of the operation desktop")
	}
	return nil
}

// View implements terminal.Session.
func (s *seat) View(ctx context.Context) (schemas.View, error) { return s.of.View(ctx) }

// Wake implements terminal.Session.
func (s *seat) Wake(ctx context.Context) (schemas.View, error) { return s.of.Wake(ctx) }

// News implements terminal.Session.
func (s *seat) News(ctx context.Context) (<-chan *schemas.Progress, error) { return s.of.News(ctx) }

// port asks where the desktop of a session is.
func (s *seat) port(ctx context.Context) (uint16, error) {
	var v struct {
		Desktop *struct {
			Port uint16 `json:"port"`
		} `json:"desktop"`
	}
	if err := s.of.ask(ctx, "show", schemas.Request{Name: s.of.name}, &v); err != nil {
		return 0, err
	}
	if v.Desktop == nil || v.Desktop.Port == 0 {
		return desktop.Port, nil
	}
	return v.Desktop.Port, nil
}

// Dial implements terminal.Session: it connects to the port of the desktop. The connection counts as nothing by itself.
func (s *seat) Dial(ctx context.Context, v schemas.View) (net.Conn, error) {
	port, err := s.port(ctx)
	if err != nil {
		return nil, err
	}
	// A session may have the network of its host, or of others: its ports are then for those alone who reach them by HTTP.
	var may schemas.Reach
	if err := s.of.ask(ctx, "reach", schemas.Request{Name: s.of.name, Reach: &schemas.ReachRequest{Port: port}}, &may); err != nil {
		return nil, err
	}
	conn, err := dialSession(ctx, s.of.nc, v, attach.Hello{Name: v.Name, UID: v.UID, Forward: true})
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	up, err := attach.DialPort(conn, port, nil)
	if err != nil {
		return nil, err // not a nil connection of another type
	}
	return up, nil
}

// inputEvery is the least time between two words about input: more would be said later, and undo a suspend.
const inputEvery = time.Second

// Input implements desktop.Use.
func (s *seat) Input() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < inputEvery {
		return
	}
	s.last = time.Now()
	if of, err := s.of.client.Session(s.of.name); err == nil {
		of.Input(events.Because("its desktop is used by " + s.caller))
	}
}

// Present implements desktop.Use.
func (s *seat) Present() (leave func()) {
	none := func() {}
	of, err := s.of.client.Session(s.of.name)
	if err != nil {
		return none
	}
	how := []events.How{events.Because("its desktop is seen by " + s.caller)}
	if !s.fresh {
		how = append(how, events.Reconnected) // what comes back doesn't undo a suspend
	}
	s.fresh = false
	l, err := of.Present(context.Background(), "desktop-"+nuid.Next(), 0, how...)
	if err != nil {
		return none // the gateway stops
	}
	return func() { _ = l.Close() } // never fails
}
