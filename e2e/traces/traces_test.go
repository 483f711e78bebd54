package traces

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/diapause/diapause/e2e/stack"
)

// receiver is a collector that keeps what it hears.
type receiver struct {
	t *testing.T

	mu    sync.Mutex
	raw   bytes.Buffer
	spans []*otlp.Span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var all collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &all)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		r.t.Errorf("%s: %v", req.URL.Path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.Write(body)
	for _, of := range all.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// await waits until it has heard of an operation, and gives its spans, the whole of it first.
func (r *receiver) await(name string) (out []*otlp.Span) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		r.mu.Lock()
		for _, s := range r.spans {
			if s.Name == name {
				out = []*otlp.Span{s}
			}
		}
		for _, s := range r.spans {
			if len(out) > 0 && bytes.Equal(s.ParentSpanId, out[0].SpanId) {
				out = append(out, s)
			}
		}
		r.mu.Unlock()
		if len(out) > 0 {
			return out
		}
		if time.Now().After(end) {
			r.t.Fatalf("no trace of a %s", name)
		}
	}
}

const (
	canary      = "canary-in-all-that-a-session-is-called-with"
	traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// logged looks whether each line of a log in JSON that is about a session says which, its operation and its
// epoch, and what isn't to be said.
func logged(t *testing.T, log string) {
	t.Helper()
	about := map[string]bool{}
	for text := range strings.Lines(log) {
		if !strings.HasPrefix(text, "{") {
			continue // what the command prints
		}
		var line struct {
			Time                    time.Time
			Level, Msg, Session, Op string
			Epoch                   int
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Time.IsZero() || line.Level == "" || line.Msg == "" {
			t.Errorf("a line of the log is %s: %v", text, err)
		}
		if line.Session != "" && line.Op != "" && line.Epoch > 0 {
			about[line.Msg] = true
		}
	}
	if !about["started"] || !about["suspended"] || !about["resumed"] || strings.Contains(log, canary) {
		t.Errorf("lines that say a session, its operation and its epoch: %v; the log is\n%s", about, log)
	}
}

func TestTraces(t *testing.T) {
	heard := &receiver{t: t}
	server := httptest.NewServer(heard)
	t.Cleanup(server.Close)
	s, _ := stack.Fresh(t)
	s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "CANARY="+canary)
	if err := s.Up("--docker", "none", "-v", "--log-format", "json"); err != nil {
		t.Fatal(err)
	}
	must := func(args ...string) {
		t.Helper()
		if out, err := s.Must(args...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	must("run", "--name", "s", "--idle", "never", "--env", "CANARY", "--", "sh", "-c", "sleep 1000; echo "+canary)
	s.Env = append(s.Env, "TRACEPARENT="+traceparent)
	must("suspend", "--reason", canary, "s")
	must("ensure", "s")
	start, suspend, resume := heard.await("start"), heard.await("suspend"), heard.await("resume")
	for _, op := range [][]*otlp.Span{suspend, resume} {
		if got := hex.EncodeToString(op[0].TraceId) + "-" + hex.EncodeToString(op[0].ParentSpanId); !strings.Contains(traceparent, got) {
			t.Errorf("the caller's trace is %s, its %s is below %s", traceparent, op[0].Name, got)
		}
		if len(op) < 3 {
			t.Errorf("of a %s there are %d stages: %v", op[0].Name, len(op)-1, op)
		}
		for _, stage := range op[1:] {
			if !bytes.Equal(stage.TraceId, op[0].TraceId) || stage.EndTimeUnixNano < stage.StartTimeUnixNano || stage.StartTimeUnixNano < op[0].StartTimeUnixNano {
				t.Errorf("stage %s of a %s: %v", stage.Name, op[0].Name, stage)
			}
		}
	}
	if bytes.Equal(start[0].TraceId, suspend[0].TraceId) || len(start[0].ParentSpanId) > 0 {
		t.Errorf("the start belongs to the trace of another call: %v", start[0])
	}
	heard.mu.Lock()
	if bytes.Contains(heard.raw.Bytes(), []byte(canary)) {
		t.Error("what the session was called with was sent")
	}
	heard.mu.Unlock()

	logged(t, s.Log())

	server.Close()
	must("suspend", "s")
	must("ensure", "s")
	for end := time.Now().Add(time.Minute); strings.Count(s.Log(), "traces aren't exported") == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("that nothing is exported isn't said")
		}
	}
	must("suspend", "s")
	must("ensure", "s")
	if n := strings.Count(s.Log(), "traces aren't exported"); n != 1 {
		t.Errorf("that nothing is exported is said %d times", n)
	}
}
