package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/services/gateway/console"
)

// Options is what a gateway is made of.
type Options struct {
	NC      *nats.Conn // its own: errors of requests go to its error handler
	Names   stream.Names
	Version string // of the program: semantic
	Log     *slog.Logger
	// Hosts are the names under which clients reach it, besides localhost and addresses.
	Hosts []string
	// Origins are those of pages that may ask it besides its own, as https://app.example.
	Origins []string
	// Outside is how clients see it.
	Outside Outside
	// Ports leads to ports of sessions; it answers the API alone if nil.
	Ports *Ports
	User  string // the NATS user that NC is of
}

// Gateway answers HTTP. It may be used from many goroutines at once.
type Gateway struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	names   stream.Names
	api     *events.API
	client  *events.Client
	log     *slog.Logger
	doc     huma.API
	streams *streams
	rates   *rates
	allowed *allowed
	doors   *doorway // nil if it leads to no ports
	handler http.Handler

	answerWait time.Duration
	answered   [6]atomic.Uint64 // requests, by the first digit of the status
}

// New makes a gateway.
func New(o Options) (*Gateway, error) {
	js, err := jetstream.New(o.NC)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	allowed, err := allow(o.Outside, o.Hosts, o.Origins)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		nc: o.NC, js: js, names: o.Names, log: o.Log, streams: newStreams(), rates: allowed.rates, allowed: allowed, answerWait: answerWait,
		api: events.NewAPI(o.NC, events.Options{By: "http"}), client: events.New(o.NC, events.Options{By: "http"}),
	}
	allowed.knows = g.whose
	mux := http.NewServeMux()
	g.doc = humago.New(mux, config(o.Version))
	g.doc.UseMiddleware(noKeys)
	g.sessions()
	g.ports()
	g.labels()
	templates(g)
	redactions(g)
	g.policies()
	g.fleet()
	g.tokens()
	g.listeners()
	g.logins()
	g.aliases()
	g.live(mux)
	transitionsOf{g}.operation(mux)
	g.presence(mux)
	g.terminals(mux)
	g.shares(mux)
	readings{g}.operations(mux)
	insides{readings{g}}.operations(mux)
	desktops{g}.operations(mux)
	newSearches(readings{g}).operations()
	newComparing(readings{g}).operations(mux)
	logs{readings{g}}.operations(mux)
	imports{readings{g}}.operations(mux)
	if err := g.page(mux); err != nil {
		return nil, err
	}
	if err := console.Register(mux); err != nil {
		return nil, err
	}
	g.handler = g.noted(o.Log, allowed.guard(orProblem(mux)))
	if o.Ports == nil {
		g.handler = shortHeaders(o.Outside.through("", allowed, g.handler))
		return g, nil
	}
	if g.doors, err = g.doorway(*o.Ports, allowed, o.User, o.Outside.URL()); err != nil {
		return nil, err
	}
	answers := g.handler
	g.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.doors.takes(r) {
			g.doors.ServeHTTP(w, r)
			return
		}
		answers.ServeHTTP(w, r)
	})
	g.handler = shortHeaders(o.Outside.through(g.doors.domain, allowed, g.handler))
	return g, nil
}

// Handler answers all requests.
func (g *Gateway) Handler() http.Handler { return g.handler }

// prefix is where the API is.
const prefix = "/api/v1"

// config is that of the document and of what reads and writes bodies.
func config(version string) huma.Config {
	c := huma.DefaultConfig("Diapause", version)
	c.Info.Description = "Sessions that are suspended while idle, and resumed on access. Each request has a token: `Authorization: Bearer dpt_…`, of `diapause token create`."
	c.OpenAPIPath, c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", "", nil // see page.go
	c.Formats = map[string]huma.Format{"application/json": encoder, "json": encoder}
	c.AllowAdditionalPropertiesByDefault = true
	c.RejectUnknownQueryParameters = true
	c.Security = []map[string][]string{{"token": {}}}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	r := c.Components.Schemas
	r.RegisterTypeAlias(reflect.TypeFor[schemas.Duration](), reflect.TypeFor[durationText]())
	r.RegisterTypeAlias(reflect.TypeFor[schemas.Spec](), reflect.TypeFor[Spec]())
	return c
}

// durationText is how a duration is written: "20s", "1h30m", "7d".
type durationText string

// Spec is schemas.Spec as a client writes it.
type Spec struct {
	schemas.Spec
	Command []string            `json:"command,omitempty"`
	Docker  *dockerspec.Options `json:"docker,omitempty"`
}

// encoder reads bodies strictly: what isn't known is refused, for it may be misspelt.
var encoder = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(data []byte, v any) error {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			return err
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return errors.New("there is more after the value")
		}
		return nil
	},
}

// ask asks the API for the bearer of the request's token.
func (g *Gateway) ask(ctx context.Context, verb string, req schemas.Request, out any) error {
	if !g.nc.IsConnected() { // else the request would wait for the connection
		return refusal(http.StatusServiceUnavailable, "the gateway isn't connected to NATS", "ask again")
	}
	from := caller(ctx)
	req.Actor = from.note
	wait := time.Duration(req.Wait)
	if wait <= 0 {
		wait = defaultWait
	}
	req.Wait = schemas.Duration(wait)
	ctx, cancel := context.WithTimeout(events.WithTrace(events.WithToken(ctx, from.token), from.trace), wait+slack)
	defer cancel()
	err := g.api.Ask(ctx, verb, req, out)
	if err == nil && verb == verbShared {
		g.rates.watches(from)
		return nil
	}
	if err == nil {
		g.rates.answered(from, true)
		return nil
	}
	p := problem(err)
	if p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
		g.rates.answered(from, p.Status != http.StatusUnauthorized)
	}
	return p
}

const (
	// defaultWait is how long an answer may take if the request doesn't say.
	defaultWait = 2 * time.Minute
	// slack is how much longer the gateway waits than it lets the API take.
	slack = 10 * time.Second
)
