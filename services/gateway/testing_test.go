package gateway

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = time.Minute

// bench is a gateway before an API that a test answers for.
type bench struct {
	*testing.T
	nc      *nats.Conn // of the API
	js      jetstream.JetStream
	records *statekv.Store
	gate    *Gateway
	url     string
}

func newBench(t *testing.T, with func(*Options)) *bench {
	t.Helper()
	b := &bench{T: t, js: natstest.Streams(t)}
	b.nc = b.js.Conn()
	var err error
	b.records, err = statekv.Open(t.Context(), b.js, stream.NamesWith(""))
	b.must(err)
	b.gate, b.url = b.open(with)
	return b
}

// open starts one more gateway.
func (b *bench) open(with func(*Options)) (*Gateway, string) {
	b.Helper()
	nc, err := nats.Connect(b.nc.ConnectedUrl())
	b.must(err)
	b.Cleanup(nc.Close)
	o := Options{NC: nc, Names: stream.NamesWith(""), Version: "1.0.0"}
	if with != nil {
		with(&o)
	}
	g, err := New(o)
	b.must(err)
	g.rates.answered(from{token: "dpt_a"}, true) // so that its bearer isn't asked for before a body is read
	srv := httptest.NewServer(g.Handler())
	b.Cleanup(srv.Close)
	return g, srv.URL
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// serve runs a gateway as its process does, and gives where.
func (b *bench) serve(g *Gateway) string {
	b.Helper()
	l, err := Listen(b.Context(), ListenOptions{Address: "127.0.0.1:0"})
	b.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Errorf("the gateway ends with %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

// asked is a request as it came to the API.
type asked struct {
	schemas.Request
	token, trace string
}

// answers has a verb answered.
func (b *bench) answers(verb string, how func(asked) (any, *schemas.APIError)) {
	b.Helper()
	_, err := b.nc.Subscribe(schemas.SubjectBearer+"."+verb, func(m *nats.Msg) {
		a := asked{token: m.Header.Get(schemas.HeaderToken), trace: m.Header.Get(schemas.HeaderTrace)}
		if err := json.Unmarshal(m.Data, &a.Request); err != nil {
			b.Errorf("the API got %s", m.Data)
		}
		out, e := how(a)
		answer := &nats.Msg{Subject: m.Reply}
		if e != nil {
			answer.Header, out = nats.Header{micro.ErrorCodeHeader: {e.Code}}, e
		}
		answer.Data, _ = json.Marshal(out)
		if err := b.nc.PublishMsg(answer); err != nil {
			b.Errorf("answer: %v", err)
		}
	})
	b.must(err)
	b.must(b.nc.Flush())
}

// isOf has the API say whose tokens are: me by token.
func (b *bench) isOf(me map[string]schemas.WhoAmI) {
	b.answers("whoami", func(a asked) (any, *schemas.APIError) {
		if who, ok := me[a.token]; ok {
			return who, nil
		}
		return nil, schemas.FailedError(schemas.ReasonNoToken, "no such token")
	})
}

// do sends a request, with "Name: value" lines as its headers.
func (b *bench) do(method, path, body string, headers ...string) *http.Response {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(body))
	b.must(err)
	r.Header.Set("Authorization", "Bearer dpt_a")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	answer, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	b.must(err)
	b.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// read decodes an answer.
func read[T any](b *bench, r *http.Response) (v T) {
	b.Helper()
	b.must(json.NewDecoder(r.Body).Decode(&v))
	return v
}

// refused checks that an answer is a problem of a status.
func (b *bench) refused(what string, r *http.Response, status int) Problem {
	b.Helper()
	if r.StatusCode != status || r.Header.Get("Content-Type") != problemType {
		b.Errorf("%s: status %d, type %s; want %d", what, r.StatusCode, r.Header.Get("Content-Type"), status)
		return Problem{}
	}
	p := read[Problem](b, r)
	if p.Status != status || p.Code == "" || p.Detail == "" {
		b.Errorf("%s: %+v", what, p)
	}
	return p
}

func readAll(b *bench, r *http.Response) string {
	b.Helper()
	data, err := io.ReadAll(r.Body)
	b.must(err)
	return string(data)
}

// lockedText is a log that many goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// operations are those of a path, by method.
func operations(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{}
	for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete} {
		if op != nil {
			all[method] = op
		}
	}
	return all
}
