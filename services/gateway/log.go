package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// LogEvent is a transition of a session, as the log has it.
type LogEvent struct {
	Seq        uint64                 `json:"seq" doc:"In the log; the id of the event"`
	Name       string                 `json:"name"`
	Tenant     schemas.Tenant         `json:"tenant"`
	UID        schemas.UID            `json:"uid"`
	Class      string                 `json:"class"`
	Host       schemas.HostID         `json:"host"`
	Transition schemas.TransitionView `json:"transition"`
}

// Gap says that a part of the log can't be given: it was moved out of NATS, or never was.
type Gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// live are the operations that answer with server-sent events.
func (g *Gateway) live(mux *http.ServeMux) {
	const tag = "live"
	text := &huma.Schema{Type: "string"}
	tenant := &huma.Param{Name: "tenant", In: "query", Schema: text, Description: "Of this tenant alone"}
	registry := g.doc.OpenAPI().Components.Schemas
	event, gap := registry.Schema(typeOf[LogEvent](), true, ""), registry.Schema(typeOf[Gap](), true, "")
	log := route{id: "events", method: "GET", path: "/events", tag: tag, summary: "Follow the log of all sessions as server-sent events"}.operation()
	log.Description = "Each event is a transition, its id the place in the log. A client that comes back with Last-Event-ID, as browsers do, misses none and sees none twice. " +
		"The data of an event `transition` is a LogEvent (" + event.Ref + "), that of an event `gap` a Gap (" + gap.Ref + ")."
	log.Parameters = []*huma.Param{
		tenant,
		{Name: "session", In: "query", Schema: text, Description: "Of this session alone; of the tenant default if none is given"},
		{Name: "after", In: "query", Schema: &huma.Schema{Type: "integer", Format: "int64"}, Description: "Begin after this place in the log, 0 for all of it; with what comes from now on if it isn't given"},
		{Name: "Last-Event-ID", In: "header", Schema: text, Description: "The same; it goes before after"},
	}
	g.streaming(mux, log, g.follow)

	session := registry.Schema(typeOf[Session](), true, "")
	watch := route{id: "watch", method: "GET", path: "/watch", tag: tag, summary: "Watch sessions as server-sent events"}.operation()
	watch.Description = "Each session as it is, and again when it changes; a deleted one once, with that state. The data of an event `session` is a Session (" + session.Ref + ")."
	watch.Parameters = []*huma.Param{tenant}
	g.streaming(mux, watch, g.watch)
}

// streaming has an operation in the document, and answers it.
func (g *Gateway) streaming(mux *http.ServeMux, op huma.Operation, h http.HandlerFunc) {
	op.Extensions = nil // it is no verb
	op.Responses = map[string]*huma.Response{
		"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{
			problemType: {Schema: g.doc.OpenAPI().Components.Schemas.Schema(typeOf[Problem](), true, "")},
		}},
	}
	g.doc.OpenAPI().AddOperation(&op)
	mux.HandleFunc("GET "+op.Path, h)
}

// follow answers with the log.
func (g *Gateway) follow(w http.ResponseWriter, r *http.Request) {
	me, ok := g.who(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	tenant, session, p := scope(me, q.Get("tenant"), q.Get("session"))
	if p != nil {
		p.write(w)
		return
	}
	s, err := g.js.Stream(r.Context(), g.names.SessionStream())
	if err != nil {
		problem(schemas.FailedError(schemas.ReasonNoServer, "read the log: %v", err)).write(w)
		return
	}
	at, p := place(r, s.CachedInfo().State)
	if p != nil {
		p.write(w)
		return
	}
	cfg := jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: at.next,
		FilterSubjects: []string{"$KV." + g.names.Sessions() + "." + tenant + "." + session},
	}
	g.stream(w, r, me, at.first(), func(ctx context.Context, send func(event) error) error {
		return stream.Consume(ctx, g.js, s, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
			e, ok := logged(msg.Data, meta.Sequence.Stream)
			if !ok {
				g.log.Warn("a record in the log can't be read", "seq", meta.Sequence.Stream)
				return nil
			}
			return send(e)
		}, func() {}, func() {})
	})
}

// begin is where a stream of the log begins.
type begin struct {
	next uint64
	gap  *Gap // before it
}

// first is the event that a stream begins with: the gap, or only a place to come back to.
func (b begin) first() event {
	e := event{id: strconv.FormatUint(b.next-1, 10)}
	if b.gap != nil {
		e.kind, e.data = "gap", b.gap
	}
	return e
}

// place finds where a client wants to begin.
func place(r *http.Request, state jetstream.StreamState) (begin, *Problem) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return begin{next: state.LastSeq + 1}, nil
	}
	after, err := strconv.ParseUint(strings.TrimSpace(text), 10, 63)
	if err != nil {
		return begin{}, refusal(http.StatusBadRequest, fmt.Sprintf("begin after %.40q: want a place in the log", text), "")
	}
	switch {
	case after > state.LastSeq: // of another log, or the log went back
		return begin{next: state.LastSeq + 1, gap: &Gap{From: state.LastSeq + 1, To: after}}, nil
	case after > 0 && after+1 < state.FirstSeq:
		return begin{next: state.FirstSeq, gap: &Gap{From: after + 1, To: state.FirstSeq - 1}}, nil
	}
	return begin{next: max(after+1, 1)}, nil
}

// logged is the event of a revision of a record.
func logged(data []byte, seq uint64) (event, bool) {
	e, ok := logEvent(data, seq)
	return event{id: strconv.FormatUint(seq, 10), kind: "transition", data: e}, ok
}

// logEvent is the transition that made a revision of a record.
func logEvent(data []byte, seq uint64) (LogEvent, bool) {
	var rec schemas.SessionRecord
	if json.Unmarshal(data, &rec) != nil || rec.UID == "" {
		return LogEvent{}, false
	}
	return LogEvent{Seq: seq, Name: rec.Name().String(), Tenant: rec.Tenant, UID: rec.UID, Class: rec.Class, Host: rec.Host, Transition: schemas.ViewTransition(rec)}, true
}
