package gateway

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// The bounds of an answer as JSON, which is made in memory. As JSON lines or CSV it has all, and is sent as it is read.
const (
	transitionsUsually = 100
	transitionsAtMost  = 1000
)

// Transitions are what the log has of many sessions.
type Transitions struct {
	Transitions []LogEvent `json:"transitions" doc:"The last one first"`
	Found       int        `json:"found" doc:"With those that are beyond the limit"`
	Moved       uint64     `json:"moved,omitempty" doc:"Places at the beginning of the log that NATS hasn't got any more: the history of a session has those too"`
}

// transitionsOf is the operation on the log as it stands, and answers it.
type transitionsOf struct{ gate *Gateway }

func (o transitionsOf) operation(mux *http.ServeMux) {
	op := route{id: "transitions", method: "GET", path: "/transitions", tag: "sessions", summary: "List the transitions of many sessions"}.operation()
	op.Description = "What NATS has of the log, each transition as a LogEvent. As `json` it is the last `limit` of them; as `jsonl` and `csv` all, the first one first."
	text, when, number := &huma.Schema{Type: "string"}, &huma.Schema{Type: "string", Format: "date-time"}, &huma.Schema{Type: "integer"}
	for _, p := range []huma.Param{
		{Name: "tenant", Schema: text}, {Name: "session", Schema: text, Description: "TENANT.ID, or ID for the tenant default"},
		{Name: "actor", Schema: text, Description: "Those whose actor or note has this text"}, {Name: "type", Schema: text, Description: "Of this type alone, as suspended"},
		{Name: "from", Schema: when}, {Name: "to", Schema: when}, {Name: "limit", Schema: number},
		{Name: "format", Schema: &huma.Schema{Type: "string", Enum: []any{"json", "jsonl", "csv"}}},
	} {
		p.In = "query"
		op.Parameters = append(op.Parameters, &p)
	}
	registry := o.gate.doc.OpenAPI().Components.Schemas
	op.Extensions = nil // it is no verb
	op.Responses = map[string]*huma.Response{
		"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"application/json": {Schema: registry.Schema(typeOf[Transitions](), true, "")}, "application/jsonl": {Schema: text}, "text/csv": {Schema: text},
		}},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{problemType: {Schema: registry.Schema(typeOf[Problem](), true, "")}}},
	}
	o.gate.doc.OpenAPI().AddOperation(&op)
	mux.Handle("GET "+op.Path, o)
}

// ServeHTTP implements http.Handler.
func (o transitionsOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	me, ok := o.gate.who(w, r)
	if !ok {
		return
	}
	f, err := wantedOf(r)
	if err != nil {
		problem(err).write(w)
		return
	}
	tenant, session, p := scope(me, f.tenant, f.session)
	if p != nil {
		p.write(w)
		return
	}
	ctx, end, p := o.gate.streams.begin(r.Context(), me.Actor)
	if p != nil {
		p.write(w)
		return
	}
	defer end()
	s, err := o.gate.js.Stream(ctx, o.gate.names.SessionStream())
	if err != nil {
		problem(schemas.FailedError(schemas.ReasonNoServer, "read the log: %v", err)).write(w)
		return
	}
	subject := "$KV." + o.gate.names.Sessions() + "." + tenant + "." + session
	state := s.CachedInfo().State
	read := func(fn func(LogEvent) error) error {
		if state.Msgs == 0 { // a consumer takes its time to find that
			return nil
		}
		return o.stored(ctx, s, subject, f, fn)
	}
	if f.format == "json" {
		o.list(w, f, state, read)
		return
	}
	out := &sending{w: w, c: http.NewResponseController(w), wait: o.gate.streams.writeWait, again: func() *Problem { return o.gate.still(ctx, me) }, looked: time.Now(), every: o.gate.streams.keepAlive}
	if err := out.all(f.format, read); err != nil {
		if !out.sent {
			problem(err).write(w)
			return
		}
		panic(http.ErrAbortHandler) // so that none takes it for a whole one
	}
}

// list answers with the last ones.
func (o transitionsOf) list(w http.ResponseWriter, f wantedTransitions, state jetstream.StreamState, read func(func(LogEvent) error) error) {
	out := Transitions{Transitions: []LogEvent{}}
	if state.FirstSeq > 0 {
		out.Moved = state.FirstSeq - 1
	}
	err := read(func(e LogEvent) error {
		out.Found++
		out.Transitions = append(out.Transitions, e)
		if len(out.Transitions) >= 2*f.limit {
			out.Transitions = slices.Clone(out.Transitions[f.limit:])
		}
		return nil
	})
	if err != nil {
		problem(err).write(w)
		return
	}
	slices.Reverse(out.Transitions)
	out.Transitions = out.Transitions[:min(f.limit, len(out.Transitions))]
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client may be gone
}

// stored calls fn with what the log has of a subject now, that is wanted.
func (o transitionsOf) stored(ctx context.Context, s jetstream.Stream, subject string, f wantedTransitions, fn func(LogEvent) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubjects: []string{subject}}
	whole := false
	err := stream.Consume(ctx, o.gate.js, s, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, live bool) error {
		if live {
			return nil
		}
		if e, ok := logEvent(msg.Data, meta.Sequence.Stream); ok && f.has(e) {
			return fn(e)
		}
		return nil
	}, func() {
		whole = true
		stop()
	}, func() {})
	if err == nil && !whole {
		err = ctx.Err()
	}
	return err
}

// wantedTransitions says which transitions are asked for.
type wantedTransitions struct {
	tenant, session, actor, kind, format string
	from, to                             time.Time
	limit                                int
}

func wantedOf(r *http.Request) (f wantedTransitions, err error) {
	f = wantedTransitions{format: "json", limit: transitionsUsually}
	for name, values := range r.URL.Query() {
		value := values[len(values)-1]
		switch name {
		case "tenant":
			f.tenant = value
		case "session":
			f.session = value
			if tenant, id, ok := strings.Cut(strings.Replace(value, "/", ".", 1), "."); ok {
				f.tenant, f.session = tenant, id
			}
		case "actor":
			f.actor = value
		case "type":
			f.kind = value
		case "format":
			f.format = value
		case "from":
			f.from, err = time.Parse(time.RFC3339, value)
		case "to":
			f.to, err = time.Parse(time.RFC3339, value)
		case "limit":
			f.limit, err = strconv.Atoi(value)
		default:
			return f, schemas.UsageError("no parameter %.40q here", name)
		}
		if err != nil {
			return f, schemas.UsageError("%s %.40q can't be read", name, value).WithHint("times are as 2026-03-04T05:06:07Z")
		}
	}
	switch {
	case !slices.Contains([]string{"json", "jsonl", "csv"}, f.format):
		return f, schemas.UsageError("format %.40q: want json, jsonl or csv", f.format)
	case f.limit < 1 || f.limit > transitionsAtMost:
		return f, schemas.UsageError("limit %d: want from 1 to %d", f.limit, transitionsAtMost)
	}
	return f, nil
}

func (f wantedTransitions) has(e LogEvent) bool {
	t := e.Transition
	return (f.kind == "" || string(t.Type) == f.kind) && (f.actor == "" || strings.Contains(t.Actor, f.actor) || strings.Contains(t.Note, f.actor)) &&
		(f.from.IsZero() || !t.At.Before(f.from)) && (f.to.IsZero() || t.At.Before(f.to))
}

// sending sends transitions as they are read. A client that doesn't take them is cut, and so is one whose token doesn't hold any more.
type sending struct {
	w      http.ResponseWriter
	c      *http.ResponseController
	wait   time.Duration
	again  func() *Problem // looks at the token
	looked time.Time
	every  time.Duration
	sent   bool
}

// Write implements io.Writer.
func (x *sending) Write(p []byte) (int, error) {
	x.sent = true
	if time.Since(x.looked) > x.every {
		if p := x.again(); p != nil {
			return 0, p
		}
		x.looked = time.Now()
	}
	_ = x.c.SetWriteDeadline(time.Now().Add(x.wait)) // a test's recorder has none
	return x.w.Write(p)
}

func (x *sending) all(format string, read func(func(LogEvent) error) error) error {
	media := map[string]string{"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}[format]
	x.w.Header().Set("Content-Type", media)
	x.w.Header().Set("Content-Disposition", `attachment; filename="transitions.`+format+`"`)
	b := bufio.NewWriterSize(x, pieces)
	one, err := rows(b, format)
	if err == nil {
		err = read(one)
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil && !x.sent {
		x.w.Header().Del("Content-Disposition")
	}
	return err
}

// rows writes transitions, one a line.
func rows(w io.Writer, format string) (func(LogEvent) error, error) {
	if format == "jsonl" {
		lines := json.NewEncoder(w)
		return func(e LogEvent) error { return lines.Encode(e) }, nil
	}
	c := csv.NewWriter(w)
	write := func(row ...string) error {
		for i := range row {
			row[i] = cell(row[i])
		}
		if err := c.Write(row); err != nil {
			return fmt.Errorf("write a row: %w", err)
		}
		c.Flush()
		return c.Error()
	}
	err := write("seq", "at", "session", "uid", "version", "type", "state", "reason", "actor", "note", "host", "class", "op")
	return func(e LogEvent) error {
		t := e.Transition
		return write(strconv.FormatUint(e.Seq, 10), t.At.UTC().Format(time.RFC3339Nano), e.Name, string(e.UID), strconv.FormatUint(t.Version, 10), string(t.Type), string(t.State),
			t.Reason, t.Actor, t.Note, string(e.Host), e.Class, t.Op)
	}, err
}

// cell keeps a spreadsheet from taking a text that a client gave for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
