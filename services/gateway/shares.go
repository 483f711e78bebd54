package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway/console"
	"github.com/diapause/diapause/services/gateway/terminal"
)

// SharePath is where those who have the token of a share watch its terminal. It names no session: the token does.
const SharePath = prefix + "/shared"

// verbShared is what the API is asked for those who watch.
const verbShared = "shared"

// How often a share is looked at again while someone watches, besides each change of its session, and how long the API may
// say nothing of it before the watch is cut.
const (
	shareEvery = 5 * time.Second
	shareLost  = 15 * time.Second
)

// ShareBody says how long a terminal is shared.
type ShareBody struct {
	WhyBody
	For schemas.Duration `json:"for" doc:"How long others may watch" example:"1h"`
}

type shareIn struct {
	OfSession
	Waiting
	Body ShareBody
}

func (in *shareIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Reason: in.Body.Reason, Share: &schemas.ShareRequest{For: in.Body.For}}, nil
}

type unshareIn struct {
	OfSession
	Waiting
	Share string `path:"share" doc:"The id, not the token"`
}

func (in *unshareIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Share: &schemas.ShareRequest{ID: in.Share}}, nil
}

func unshareAll(in *lookIn) (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Share: &schemas.ShareRequest{All: true}}, nil
}

// shares are the operations on shares of terminals, and the WebSocket with which others watch.
func (g *Gateway) shares(mux *http.ServeMux) {
	const tag, all = "sessions", "/sessions/{session}/shares"
	verb(g, route{verb: "share", method: "POST", path: all, tag: tag, summary: "Make a token with which others watch its terminal, shown this once", status: http.StatusCreated},
		(*shareIn).request, same[shareIn, schemas.ShareMade])
	verb(g, route{verb: "unshare", method: "DELETE", path: all + "/{share}", tag: tag, summary: "End a share"}, (*unshareIn).request, session)
	verb(g, route{verb: "unshare", id: "unshare_all", method: "DELETE", path: all, tag: tag, summary: "End all its shares"}, unshareAll, session)

	op := route{verb: verbShared, method: "GET", path: strings.TrimPrefix(SharePath, prefix), tag: "live", summary: "Watch a shared terminal over a WebSocket; this is never activity", status: http.StatusSwitchingProtocols}.operation()
	registry := g.doc.OpenAPI().Components.Schemas
	message := registry.Schema(typeOf[terminal.Message](), true, "")
	op.Description = "As a session's terminal (" + attachPath + "), with the token of a share, which is good for nothing else. The first message is " +
		"{\"type\":\"attach\",\"client\":\"NAME\"}; the only other one that is taken is of the type shown. Text messages of the server are a Message (" + message.Ref + ")."
	op.Parameters = []*huma.Param{
		{Name: "Sec-WebSocket-Protocol", In: "header", Schema: &huma.Schema{Type: "string"}, Description: attachProtocol},
	}
	op.Responses = map[string]*huma.Response{
		"101": {Description: "The WebSocket"},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{
			problemType: {Schema: registry.Schema(typeOf[Problem](), true, "")},
		}},
	}
	g.doc.OpenAPI().AddOperation(&op)
	mux.HandleFunc("GET "+SharePath, watched{g}.ServeHTTP)
}

// watched answers with a terminal that is watched by a share.
type watched struct{ gate *Gateway }

// ServeHTTP implements http.Handler.
func (h watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, streams := &watchers{gate: h.gate}, h.gate.streams
	tells := h.tells()
	first, err := s.look(r.Context())
	if err != nil {
		tells(err).write(w)
		return
	}
	s.name = first.Name
	name, err := schemas.ParseName(first.Name)
	if err != nil {
		tells(err).write(w)
		return
	}
	switch {
	case r.URL.RawQuery != "":
		refusal(http.StatusBadRequest, "a terminal takes no parameters in the URL", "its first message says what is wanted").write(w)
		return
	case !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		refusal(http.StatusUpgradeRequired, "a terminal takes a WebSocket", "`diapause attach --shared` watches; see TERMINAL.md").write(w)
		return
	}
	actor := "share:" + first.Share
	ctx, end, p := streams.watch(r.Context(), actor, name.Tenant)
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
	ctx, cut := s.guarded(ctx, first.Until)
	defer cut()
	terminal.Serve(ctx, ws, terminal.Options{
		Session: s, Caller: actor, Tick: streams.keepAlive, WriteWait: streams.writeWait, Deadline: deadline,
		Problem: func(err error) (any, bool) {
			p := tells(err)
			return p, p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
		},
		Still: func(context.Context) error { return nil }, // guarded looks
		Watch: &terminal.Watch{Share: first.Share, Last: s.last},
	})
}

// tells gives what makes of an error what one who watches is told: that one knows no names of sessions, tenants and hosts, which
// errors have. The log has the error, once while it is the same.
func (h watched) tells() func(error) *Problem {
	logged := ""
	return func(err error) *Problem {
		switch p := problem(err); p.Status {
		case http.StatusUnauthorized:
			return problem(errNoToken)
		case http.StatusForbidden:
			return refusal(p.Status, "this doesn't watch a terminal", "a share's token does")
		case http.StatusTooManyRequests:
			return refusal(p.Status, "too many watch", "ask again later")
		case http.StatusServiceUnavailable:
			return refusal(p.Status, "the terminal can't be reached", "ask again later")
		}
		if text := err.Error(); text != logged {
			logged = text
			h.gate.log.Info("a shared terminal can't be shown", "err", err)
		}
		return refusal(http.StatusInternalServerError, "the terminal can't be shown now", "")
	}
}

// watchers is a session as those who have the token of a share reach it: it is seen, and neither woken nor used.
type watchers struct {
	gate *Gateway
	name string
}

// look asks the API for the session of the share, which says so as long as the share holds.
func (s *watchers) look(ctx context.Context) (v schemas.Shared, err error) {
	err = s.gate.ask(ctx, verbShared, schemas.Request{}, &v)
	return v, err
}

// View implements terminal.Session.
func (s *watchers) View(ctx context.Context) (schemas.View, error) {
	v, err := s.look(ctx)
	if err != nil {
		return schemas.View{}, err
	}
	out := schemas.View{Name: v.Name, UID: v.UID, State: v.State, Host: v.Host, Boot: v.Boot, Generation: v.Generation}
	if e := v.Exit; e != nil {
		out.Exit = &schemas.Exit{Code: e.Code, Signal: e.Signal, Reason: e.Reason}
	}
	return out, nil
}

// Wake implements terminal.Session: it never wakes one.
func (s *watchers) Wake(context.Context) (schemas.View, error) {
	return schemas.View{}, refusal(http.StatusForbidden, "a share doesn't wake its session", "")
}

// Dial implements terminal.Session. The connection counts as nothing, and nothing is typed over it.
func (s *watchers) Dial(ctx context.Context, v schemas.View) (net.Conn, error) {
	return dialSession(ctx, s.gate.nc, v, attach.Hello{Name: v.Name, UID: v.UID})
}

// News implements terminal.Session.
func (s *watchers) News(ctx context.Context) (<-chan *schemas.Progress, error) {
	return newsOf(ctx, s.gate.nc, s.name)
}

// last asks the host of a session that sleeps what its terminal showed last.
func (s *watchers) last(ctx context.Context, v schemas.View) (attach.Screen, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	conn, err := s.Dial(ctx, v)
	if err != nil {
		return attach.Screen{}, nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return attach.FetchScreen(conn)
}

// guarded gives a context that ends when the share does: by its time, or since the API, which is asked when the session has
// changed and every few seconds, says so or doesn't answer.
func (s *watchers) guarded(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithDeadlineCause(ctx, until, problem(errNoToken))
	ctx, cut := context.WithCancelCause(ctx)
	go func() { cut(s.guard(ctx)) }()
	return ctx, func() {
		cut(context.Canceled)
		stop()
	}
}

// guard returns why the share holds no longer, or the context's error.
func (s *watchers) guard(ctx context.Context) error {
	news, err := s.News(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	for known := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-news:
			if p != nil {
				continue // a step of an operation
			}
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, shareEvery)
		_, err := s.look(within)
		cancel()
		if err == nil {
			known = time.Now()
			continue
		}
		if err := confirmed(known, err, time.Now()); err != nil {
			return err
		}
	}
}

// confirmed gives why a watch is cut, if the API has refused the share, or hasn't said for too long that it holds.
func confirmed(known time.Time, err error, now time.Time) error {
	switch status := problem(err).Status; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return problem(errNoToken)
	case now.Sub(known) > shareLost:
		return fmt.Errorf("look whether the share holds: %w", err)
	}
	return nil
}

// ShareLink is what those get who may watch: the page that shows the terminal, and the token, which no browser sends to a server.
func ShareLink(base, token string) string { return base + console.Shared + "#" + token }

// IsShare reports whether a path is that of a link of a share, as ShareLink makes them, or an older version did.
func IsShare(path string) bool { return path == console.Shared || path == SharePath }
