package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// The bounds of a recording that is imported. It is passed on to a host as it comes.
const (
	maxImport  = 1 << 30
	pieceWait  = 30 * time.Second // for the next piece of it
	importWait = time.Hour        // for all of it
)

// importedAs is the driver that imported sessions have.
const importedAs = "criu"

// castType is the media type of an asciicast.
const castType = "application/x-asciicast"

// imports makes archived sessions of recordings that were made elsewhere.
type imports struct{ readings }

func (g imports) operations(mux *http.ServeMux) {
	doc := g.gate.doc
	op := route{id: "import", method: "PUT", path: "/sessions/{session}/recording", tag: "recordings", summary: "Make an archived session of an asciicast", status: http.StatusCreated}.operation()
	op.Extensions = nil // it is no verb
	op.Description = "The token has the role operator. The body is an asciicast of version 2 or 3, of 1 GiB at most, and passed on as it comes. Where there is a session of the name the answer is 409."
	text := &huma.Schema{Type: "string"}
	op.Parameters = []*huma.Param{
		{Name: "session", In: "path", Required: true, Schema: text, Description: "The name of the session that is made: TENANT.ID, or ID for the tenant default"},
		{Name: "host", In: "query", Schema: text, Description: "Which host takes it in and shows it; the first that can if it isn't given"},
		{Name: "from", In: "query", Schema: text, Description: "What the recording is called, for a person"},
	}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{castType: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	schema := doc.OpenAPI().Components.Schemas.Schema
	op.Responses = map[string]*huma.Response{
		"201": {Description: "Created", Content: map[string]*huma.MediaType{"application/json": {Schema: schema(typeOf[Session](), true, "")}},
			Headers: map[string]*huma.Param{"Location": {Schema: text, Description: "Of what was made"}}},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{problemType: {Schema: schema(typeOf[Problem](), true, "")}}},
	}
	doc.OpenAPI().AddOperation(&op)
	mux.HandleFunc("PUT "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		v, err := g.take(w, r)
		if err != nil {
			_, end := ingress.Unread(w, r) // the answer waits for nothing that is left of the body
			defer end()
			problem(err).write(w)
			return
		}
		w.Header().Set("Location", prefix+"/sessions/"+inPath(v.Name))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = encoder.Marshal(w, shown(v)) // the client is gone, then
	})
}

// isImport reports whether the body of a request is passed on as it comes.
func isImport(r *http.Request) bool {
	name, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix+"/sessions/")
	name, last := strings.CutSuffix(name, "/recording")
	return r.Method == http.MethodPut && ok && last && name != "" && !strings.Contains(name, "/")
}

// take has a host take in the recording, and makes the session of it.
func (g imports) take(w http.ResponseWriter, r *http.Request) (v schemas.View, err error) {
	me, err := g.mayImport(r)
	if err != nil {
		return v, err
	}
	n, err := schemas.ParseName(OfSession{Session: r.PathValue("session")}.name())
	if err == nil {
		err = n.ValidateNew()
	}
	if err != nil {
		return v, schemas.UsageError("%v", err)
	}
	ctx, end, p := g.gate.streams.begin(r.Context(), me.Actor)
	if p != nil {
		return v, p
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, importWait)
	defer cancel()
	host, err := g.importer(ctx, n, schemas.HostID(r.URL.Query().Get("host")))
	if err != nil {
		return v, err
	}
	from := r.URL.Query().Get("from")
	body := &paced{from: http.MaxBytesReader(w, r.Body, maxImport), c: http.NewResponseController(w)}
	err = g.send(ctx, n, host, body, func(t schemas.Imported) error {
		run := schemas.RunRequest{Host: host, Import: &schemas.ImportRequest{UID: t.UID, From: from}}
		return g.gate.ask(ctx, "run", schemas.Request{Name: n.String(), Run: &run}, &v)
	})
	return v, err
}

// mayImport refuses who isn't an operator, before anything is read.
func (g imports) mayImport(r *http.Request) (me schemas.WhoAmI, err error) {
	if err := g.gate.ask(r.Context(), "whoami", schemas.Request{}, &me); err != nil {
		return me, err
	}
	if me.Role != schemas.TokenOperator {
		return me, refusal(http.StatusForbidden, fmt.Sprintf("a token with the role %s may not import", me.Role), "one with the role operator may")
	}
	for name := range r.URL.Query() {
		if name != "host" && name != "from" {
			return me, schemas.UsageError("no parameter %.40q here", name)
		}
	}
	if !hasBody(r) {
		return me, schemas.UsageError("the request has no body").WithHint("send an asciicast of version 2 or 3")
	}
	return me, nil
}

// importer refuses a name that is taken, and gives the host that takes the recording in.
func (g imports) importer(ctx context.Context, n schemas.Name, host schemas.HostID) (schemas.HostID, error) {
	var there schemas.View
	err := g.gate.ask(ctx, "show", schemas.Request{Name: n.String()}, &there)
	var p *Problem
	switch {
	case err == nil:
		return "", schemas.StateError(schemas.ReasonExists, "session %s exists and is %s", there.Name, there.State).WithHint("give the recording another name")
	case !errors.As(err, &p) || p.Code != schemas.CodeNoSession:
		return "", err
	}
	var all []schemas.HostView
	if err := g.gate.ask(ctx, "host_ls", schemas.Request{}, &all); err != nil {
		return "", err
	}
	at := slices.IndexFunc(all, func(h schemas.HostView) bool {
		return h.TakesImports(importedAs) && (host == "" || h.Host.Host == host)
	})
	if at < 0 {
		return "", schemas.FailedError(schemas.ReasonNoHost, "no such host can take in a recording").WithHint("GET " + prefix + "/hosts lists what they have")
	}
	return all[at].Host.Host, nil
}

// send sends the recording to its host.
func (g imports) send(ctx context.Context, n schemas.Name, host schemas.HostID, body *paced, commit func(schemas.Imported) error) error {
	defer body.stop() // at the end, since that ends ctx, too
	conn, err := dialSession(ctx, g.gate.nc, schemas.View{Host: host, Name: n.String()}, attach.Hello{Name: n.String(), Import: true})
	if err == nil {
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		err = attach.SendImport(conn, body, commit)
		stop()
	}
	var large *http.MaxBytesError
	var remote attach.RemoteError
	switch {
	case errors.As(err, &large):
		return refusal(http.StatusRequestEntityTooLarge, fmt.Sprintf("the recording has more than %d bytes", large.Limit), "")
	case errors.Is(err, errNoPiece):
		return refusal(http.StatusRequestTimeout, "the recording didn't arrive", "")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, attach.ErrLost):
		return schemas.FailedError(schemas.ReasonHostGone, "host %s doesn't answer", host).WithHint("see whether there is the session; ask again if not")
	case errors.As(err, &remote):
		return refusal(http.StatusUnprocessableEntity, schemas.Shown(string(remote)), "an asciicast of version 2 or 3 can be imported")
	}
	return err
}

// errNoPiece: the client doesn't go on with its body.
var errNoPiece = errors.New("the body ended early")

// paced reads a body of which each piece has its time.
type paced struct {
	from io.Reader
	c    *http.ResponseController

	reading sync.Mutex // held while a piece is read
	mu      sync.Mutex // for what follows
	ended   bool       // no more may be read, or is there
}

// due says until when the next piece may come, and reports whether one may.
func (p *paced) due(by time.Time, end bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.ended = end
	_ = p.c.SetReadDeadline(by) // a test's recorder has none
	return true
}

// stop has no more be read, and returns when nothing is: a body may not be read when its request is answered.
func (p *paced) stop() {
	p.due(time.Unix(1, 0), true)
	p.reading.Lock()
	defer p.reading.Unlock()
}

func (p *paced) Read(b []byte) (int, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	if !p.due(time.Now().Add(pieceWait), false) {
		return 0, errNoPiece
	}
	n, err := p.from.Read(b)
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		p.due(time.Time{}, true)
	case err != nil && !errors.As(err, &large):
		err = fmt.Errorf("%w: %w", errNoPiece, err)
	}
	return n, err
}
