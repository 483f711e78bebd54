package traces

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// written is a log: some revisions are there, others come when it is followed. It is followed until ctx ends.
type written struct {
	there, comes []statekv.Versioned
	lost         bool          // its history can't be read
	told         chan struct{} // closed when all was told
}

func (w written) Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error {
	if n := len(w.there); n > 0 {
		fn(w.there[n-1])
	}
	caughtUp()
	for _, v := range w.comes {
		fn(v)
	}
	if w.told != nil {
		close(w.told)
	}
	<-ctx.Done()
	return nil
}

func (w written) History(context.Context, schemas.Name) ([]statekv.Versioned, error) {
	if w.lost {
		return nil, errors.New("away")
	}
	return slices.Concat(w.there, w.comes), nil // later ones may be there when it is read
}

func suspend(n int) []statekv.Versioned {
	var all []statekv.Versioned
	for i := range n {
		op := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		at := time.Duration(i) * time.Minute
		all = append(all,
			rev(uint64(2*i+1), at, schemas.TSuspend, op, op),
			rev(uint64(2*i+2), at+time.Second, schemas.TSuspended, op, "", schemas.Stage{Name: "freeze", MS: 100, Part: true}),
		)
	}
	return all
}

// exported follows a log, and gives what an SDK with a sampler is told.
func exported(t *testing.T, log written, s trace.Sampler) tracetest.SpanStubs {
	t.Helper()
	to := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(to), trace.WithIDGenerator(given{}), trace.WithSampler(s))
	log.told = make(chan struct{})
	e := &Exporter{Log: log, Notes: slog.New(slog.DiscardHandler), TraceOf: func(_ context.Context, seq uint64) (string, error) {
		if seq != 7 {
			return "", errors.New("no such message")
		}
		return parent, nil
	}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error)
	go func() { done <- e.follow(ctx, provider.Tracer("test")) }()
	<-log.told
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return to.GetSpans()
}

// What was under way before has the whole of its trace.
func TestUnderWay(t *testing.T) {
	all := []statekv.Versioned{
		rev(1, 0, schemas.TSuspend, "over", "over"), rev(2, time.Second, schemas.TSuspended, "over", ""),
		rev(3, 2*time.Second, schemas.TSuspend, "o", "o"), rev(4, 3*time.Second, schemas.TClaimed, "o", "o"),
		rev(5, 4*time.Second, schemas.TSuspended, "o", ""),
	}
	got := exported(t, written{there: all[:4], comes: all[4:]}, trace.AlwaysSample())
	if len(got) != 1 || !got[0].StartTime.Equal(noon.Add(2*time.Second)) || len(got[0].Events) != 3 {
		t.Errorf("it gives %+v", got)
	}
	if got := exported(t, written{there: all[:4], comes: all[4:], lost: true}, trace.AlwaysSample()); len(got) != 1 || len(got[0].Events) != 2 {
		t.Errorf("without a history it gives %+v", got)
	}
	if got := exported(t, written{there: all}, trace.AlwaysSample()); len(got) != 0 {
		t.Errorf("of what is over it gives %+v", got)
	}
}

// A stage is told if and only if its operation is.
func TestSampled(t *testing.T) {
	const ops = 200
	got := exported(t, written{comes: suspend(ops)}, trace.ParentBased(trace.TraceIDRatioBased(0.5)))
	whole := map[string]bool{}
	for _, s := range got {
		if !s.Parent.IsValid() {
			whole[s.SpanContext.SpanID().String()] = true
		}
	}
	if len(whole) == 0 || len(whole) == ops || len(got) != 2*len(whole) {
		t.Errorf("%d spans of %d operations", len(got), len(whole))
	}
	for _, s := range got {
		if s.Parent.IsValid() && !whole[s.Parent.SpanID().String()] {
			t.Errorf("%s is below an operation that isn't told", s.Name)
		}
	}
}

// An operation that activity began is in that activity's trace.
func TestWoken(t *testing.T) {
	for seq, want := range map[uint64]bool{7: true, 8: false} {
		all := suspend(1)
		all[0].Transition.Evidence = &schemas.Evidence{Seq: seq, Activity: "input"}
		got := exported(t, written{comes: all}, trace.AlwaysSample())
		if len(got) != 2 || strings.Contains(parent, got[0].SpanContext.TraceID().String()) != want {
			t.Errorf("of activity %d it gives %+v", seq, got)
		}
	}
}

// notes are what is logged.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// serve has an exporter follow a log, and gives what it notes. It waits until all was told and until is closed; then
// the exporter ends.
func serve(t *testing.T, log written, until <-chan struct{}) string {
	t.Helper()
	log.told = make(chan struct{})
	var said notes
	e := &Exporter{Log: log, Version: "1", Notes: slog.New(slog.NewTextHandler(&said, nil))}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error)
	go func() { done <- e.Serve(ctx) }()
	<-log.told
	<-until
	stop()
	if err := <-done; err != nil {
		t.Errorf("it fails: %v", err)
	}
	return said.String()
}

// A collector that takes what it is sent and never answers holds up nothing: the log is read to its end.
func TestHangs(t *testing.T) {
	asked, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		once.Do(func() { close(asked) })
		<-end
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	if said := serve(t, written{comes: suspend(10000)}, asked); said != "" { // more than the SDK keeps
		t.Errorf("it notes %s", said)
	}
}

// Variables that aren't understood are noted once each, without what is in them, and end nothing.
func TestVariables(t *testing.T) {
	const secret = "password-in-a-variable"
	heard := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { once.Do(func() { close(heard) }) }))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:" + secret + "@no host", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL,
		"OTEL_EXPORTER_OTLP_HEADERS": "Bearer " + secret, "OTEL_RESOURCE_ATTRIBUTES": "nothing", "OTEL_TRACES_SAMPLER": "none-such",
		"OTEL_BSP_SCHEDULE_DELAY": "1",
	} {
		t.Setenv(name, value)
	}
	said := serve(t, written{comes: suspend(1)}, heard)
	if strings.Contains(said, secret) {
		t.Errorf("it notes what is in a variable:\n%s", said)
	}
	for _, want := range []string{"parse url", "parse headers", "missing value", "none-such"} {
		if strings.Count(said, want) == 0 {
			t.Errorf("%q isn't noted:\n%s", want, said)
		}
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for i := range lines {
		_, lines[i], _ = strings.Cut(lines[i], "level=")
	}
	if slices.Sort(lines); len(slices.Compact(slices.Clone(lines))) != len(lines) {
		t.Errorf("something is noted twice:\n%s", said)
	}
}

// Without an endpoint it does nothing.
func TestUnwanted(t *testing.T) {
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_TRACES_EXPORTER": "none", "OTEL_SDK_DISABLED": "TRUE"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, value)
			if err := (&Exporter{}).Serve(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
