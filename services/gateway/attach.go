package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway/terminal"
)

// The subprotocols of a terminal's WebSocket. A browser can't set a header: it offers its token as one more.
const (
	attachProtocol = terminal.Protocol
	offersToken    = "diapause.token."
)

const attachPath = prefix + "/sessions/{session}/attach"

// terminals are the operations that answer with a WebSocket.
func (g *Gateway) terminals(mux *http.ServeMux) {
	op := route{verb: "ensure", id: "attach", method: "GET", path: "/sessions/{session}/attach", tag: "live", summary: "Use a session's terminal over a WebSocket", status: http.StatusSwitchingProtocols}.operation()
	op.Extensions = nil // it is more than a verb
	registry := g.doc.OpenAPI().Components.Schemas
	message := registry.Schema(typeOf[terminal.Message](), true, "")
	op.Description = "A WebSocket with the subprotocol `" + attachProtocol + "`: the screen, then the output from an exact position, and what is typed. " +
		"The client's first message is {\"type\":\"attach\",\"client\":\"NAME\",\"rows\":24,\"cols\":80}. Text messages of the server are a Message (" + message.Ref + "). " +
		"A browser offers `" + offersToken + "TOKEN` as a second subprotocol. The token has the role owner or operator."
	text := &huma.Schema{Type: "string"}
	op.Parameters = []*huma.Param{
		{Name: "session", In: "path", Required: true, Schema: text, Description: "TENANT.ID, or ID for the tenant default"},
		{Name: "Sec-WebSocket-Protocol", In: "header", Schema: text, Description: attachProtocol},
	}
	op.Responses = map[string]*huma.Response{
		"101": {Description: "The WebSocket"},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{
			problemType: {Schema: registry.Schema(typeOf[Problem](), true, "")},
		}},
	}
	g.doc.OpenAPI().AddOperation(&op)
	mux.HandleFunc("GET "+attachPath, g.attach)
}

// isAttach reports whether a request is for a terminal, or a desktop.
func isAttach(r *http.Request) bool {
	path := r.URL.Path
	return path == SharePath || strings.HasPrefix(path, prefix+"/sessions/") && (strings.HasSuffix(path, "/attach") || strings.HasSuffix(path, "/desktop"))
}

// offeredToken takes the token out of the subprotocols that a client offers.
func offeredToken(h http.Header) (token string) {
	const name = "Sec-Websocket-Protocol"
	var others []string
	for _, line := range h[name] {
		for offer := range strings.SplitSeq(line, ",") {
			offer = strings.TrimSpace(offer)
			if t, ok := strings.CutPrefix(offer, offersToken); ok {
				token = t
				continue
			}
			others = append(others, offer)
		}
	}
	if token != "" {
		h[name] = []string{strings.Join(others, ", ")}
	}
	return token
}

// attach answers with a terminal.
func (g *Gateway) attach(w http.ResponseWriter, r *http.Request) {
	me, ok := g.who(w, r)
	if !ok {
		return
	}
	s := &bearers{Gateway: g, name: OfSession{Session: r.PathValue("session")}.name()}
	if p := s.refuses(r, me); p != nil {
		p.write(w)
		return
	}
	ctx, end, p := g.streams.begin(r.Context(), me.Actor)
	if p != nil {
		p.write(w)
		return
	}
	defer end()
	ws, deadline, err := upgrade(w, r, attachProtocol)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = ws.CloseNow() }()
	terminal.Serve(ctx, ws, terminal.Options{
		Session: s, Caller: me.Actor, Tick: g.streams.keepAlive, WriteWait: g.streams.writeWait, Deadline: deadline,
		Problem: func(err error) (any, bool) {
			p := problem(err)
			return p, p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
		},
		Still: func(ctx context.Context) error {
			if p := g.still(ctx, me); p != nil {
				return p
			}
			return nil
		},
	})
}

// upgrade makes a request a WebSocket with a subprotocol, or answers it. deadline is that of its connection, which the WebSocket hides.
func upgrade(w http.ResponseWriter, r *http.Request, protocol string) (ws *websocket.Conn, deadline func(time.Time) error, err error) {
	h := &hijacked{ResponseWriter: w}
	ws, err = websocket.Accept(h, r, &websocket.AcceptOptions{
		Subprotocols:       []string{protocol},
		InsecureSkipVerify: true, // of the origin: the guard has looked at it
	})
	if err != nil {
		return nil, nil, err
	}
	return ws, h.conn.SetDeadline, nil
}

// hijacked keeps the connection that is taken from it.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	h.conn, rw, err = http.NewResponseController(h.ResponseWriter).Hijack()
	return h.conn, rw, err
}

// bearers is a session as the bearer of a token reaches it.
type bearers struct {
	*Gateway
	name string
}

// refuses says why a request gets no terminal.
func (s *bearers) refuses(r *http.Request, me schemas.WhoAmI) *Problem {
	if me.Role != schemas.TokenOwner && me.Role != schemas.TokenOperator {
		return refusal(http.StatusForbidden, fmt.Sprintf("a token with the role %s gets no terminal", me.Role), "one with the role owner does")
	}
	if r.URL.RawQuery != "" {
		return refusal(http.StatusBadRequest, "a terminal takes no parameters in the URL", "its first message says what is wanted")
	}
	v, err := s.View(r.Context())
	if err != nil {
		return problem(err)
	}
	if !v.TTY && v.Container == nil && v.Driver != "docker" {
		return problem(schemas.StateError(schemas.ReasonWrongState, "session %s has no terminal: it was run without one", v.Name).WithHint("a session gets one with `run --tty`, or \"tty\": true in its spec"))
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return refusal(http.StatusUpgradeRequired, "a terminal takes a WebSocket", "see TERMINAL.md")
	}
	return nil
}

// View implements terminal.Session.
func (s *bearers) View(ctx context.Context) (v schemas.View, err error) {
	err = s.ask(ctx, "show", schemas.Request{Name: s.name}, &v)
	return v, err
}

// Wake implements terminal.Session.
func (s *bearers) Wake(ctx context.Context) (v schemas.View, err error) {
	err = s.ask(ctx, "ensure", schemas.Request{Name: s.name}, &v)
	return v, err
}

// Dial implements terminal.Session.
func (s *bearers) Dial(ctx context.Context, v schemas.View) (net.Conn, error) {
	return dialSession(ctx, s.nc, v, attach.Hello{Name: v.Name, UID: v.UID, Presence: true, Input: true})
}

// dialSession connects to a session where a view says that it is.
func dialSession(ctx context.Context, nc *nats.Conn, v schemas.View, as attach.Hello) (net.Conn, error) {
	hello, err := json.Marshal(as)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	conn, err := tunnel.Dial(ctx, nc, schemas.SubjectHost+"."+string(v.Host)+".dial", hello)
	if errors.Is(err, tunnel.ErrNoListener) {
		return nil, attach.ErrLost // the host is coming, or going
	}
	if err != nil {
		return nil, fmt.Errorf("connect to session %s: %w", v.Name, err)
	}
	return conn, nil
}

// newsKept is how much news may wait for a terminal.
const newsKept = 16

// News implements terminal.Session.
func (s *bearers) News(ctx context.Context) (<-chan *schemas.Progress, error) {
	return newsOf(ctx, s.nc, s.name)
}

// newsOf is News of the session of a name.
func newsOf(ctx context.Context, nc *nats.Conn, name string) (<-chan *schemas.Progress, error) {
	n, err := schemas.ParseName(name)
	if err != nil {
		return nil, problem(err)
	}
	news := make(chan *schemas.Progress, newsKept)
	tell := func(p *schemas.Progress) {
		select {
		case news <- p:
		default: // what is there has it look again
		}
	}
	for subject, take := range map[string]nats.MsgHandler{
		schemas.SubjectSession: func(*nats.Msg) { tell(nil) },
		schemas.SubjectProgress: func(m *nats.Msg) {
			var p schemas.Progress
			if json.Unmarshal(m.Data, &p) == nil {
				tell(&p)
			}
		},
	} {
		sub, err := nc.Subscribe(subject+"."+n.Key(), take)
		if err != nil {
			return nil, fmt.Errorf("follow session %s: %w", n, err)
		}
		context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be closed
	}
	return news, nil
}
