package traces

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Wanted reports whether the environment says where traces go.
func Wanted() bool {
	return (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "") &&
		os.Getenv("OTEL_TRACES_EXPORTER") != "none" && !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
}

// Log has the sessions' records. *statekv.Store is one.
type Log interface {
	// Watch calls fn with the last revision of every record, then with each new one, until ctx ends.
	// caughtUp is called once, in between.
	Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
	// History gives every revision of a record, oldest first.
	History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, error)
}

// TraceOf reads which trace a message of the activity stream is a part of; "" if it says none, or is gone.
type TraceOf func(ctx context.Context, seq uint64) (string, error)

// Exporter sends the traces of what is done from now on.
type Exporter struct {
	Log     Log
	TraceOf TraceOf
	Version string
	Notes   *slog.Logger
}

// again is the pause before the log is followed again.
const again = 5 * time.Second

// last is how long the end of the process waits for what isn't sent yet.
const last = 2 * time.Second

// Serve exports until ctx ends. It does nothing unless Wanted. No setting and no collector makes it fail: what can't be
// exported is logged.
func (e *Exporter) Serve(ctx context.Context) error {
	if !Wanted() {
		return nil
	}
	said := &complaints{log: e.Notes, heard: map[string]bool{}}
	otel.SetErrorHandler(said)
	otel.SetLogger(logr.New(said))
	to, err := otlptracehttp.New(ctx)
	if err != nil {
		said.Handle(err)
		return nil
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "diapause"), attribute.String("service.version", e.Version)), resource.WithFromEnv())
	if err != nil { // what could be read of it is there
		said.Handle(err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(to), sdk.WithIDGenerator(given{}), sdk.WithResource(about))
	said.begin()
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
		defer cancel()
		_ = provider.Shutdown(end) // what isn't sent by then is lost
	}()
	for {
		err := e.follow(ctx, provider.Tracer("github.com/diapause/diapause"))
		if ctx.Err() != nil {
			return nil
		}
		e.Notes.Warn("traces are exported again soon", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

func (e *Exporter) follow(ctx context.Context, t trace.Tracer) error {
	var f Fold
	var live bool
	return e.Log.Watch(ctx, func(v statekv.Versioned) {
		switch {
		case live:
			for _, op := range f.Add(e.traced(ctx, v)) {
				send(ctx, t, op)
			}
		case v.Op != nil: // else it was over before
			for _, was := range e.soFar(ctx, v) {
				f.Add(e.traced(ctx, was))
			}
		}
	}, func() { live = true })
}

// soFar gives the revisions so far of the operation that is under way in v.
func (e *Exporter) soFar(ctx context.Context, v statekv.Versioned) []statekv.Versioned {
	all, err := e.Log.History(ctx, v.Name())
	if err != nil {
		e.Notes.Debug("the trace of an operation lacks its begin", v.Logged("err", err)...)
		return []statekv.Versioned{v}
	}
	return slices.DeleteFunc(all, func(was statekv.Versioned) bool {
		return was.Version > v.Version || was.UID != v.UID || was.Op == nil || was.Op.ID != v.Op.ID
	})
}

// traced has an operation that activity began be a part of that activity's trace.
func (e *Exporter) traced(ctx context.Context, v statekv.Versioned) statekv.Versioned {
	by := v.Transition.Evidence
	if v.Op == nil || v.Op.Trace != "" || by == nil || by.Activity == "" {
		return v
	}
	trace, err := e.TraceOf(ctx, by.Seq)
	if err != nil {
		e.Notes.Debug("an operation begins a trace of its own", v.Logged("err", err)...)
	}
	op := *v.Op
	op.Trace, v.Op = trace, &op
	return v
}

// send gives the spans of an operation to the SDK. The first may be one that its sampler leaves out; then the others are, too.
func send(ctx context.Context, t trace.Tracer, spans []Span) {
	var whole trace.SpanContext
	for i, s := range spans {
		if i > 0 {
			s.Parent = whole
		}
		within := context.WithValue(trace.ContextWithRemoteSpanContext(ctx, s.Parent), idsKey{}, s)
		_, span := t.Start(within, s.Name, trace.WithTimestamp(s.Start), trace.WithAttributes(s.Attributes...))
		if i == 0 {
			whole = span.SpanContext()
		}
		for _, event := range s.Events {
			span.AddEvent(event.Name, trace.WithTimestamp(event.At))
		}
		if s.Failed != "" {
			span.SetStatus(codes.Error, s.Failed)
		}
		span.End(trace.WithTimestamp(s.End))
	}
}

// given has the SDK use the IDs that a span has already.
type given struct{}

type idsKey struct{}

func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s, _ := ctx.Value(idsKey{}).(Span)
	return s.Trace, s.ID
}

func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	s, _ := ctx.Value(idsKey{}).(Span)
	return s.ID
}

// asked reads the context of who asked for an operation; what is none is as if there were none.
func asked(traceparent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}
