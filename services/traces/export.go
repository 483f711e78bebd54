package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/diapause/diapause/events/statekv"
)

// Wanted reports whether the environment says where traces go.
func Wanted() bool {
	return (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "") &&
		os.Getenv("OTEL_TRACES_EXPORTER") != "none" && os.Getenv("OTEL_SDK_DISABLED") != "true"
}

// Log has the sessions' records. *statekv.Store is one.
type Log interface {
	// Watch calls fn with the last revision of every record, then with each new one, until ctx ends.
	// caughtUp is called once, in between.
	Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
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
const last = 3 * time.Second

// Serve exports until ctx ends. It does nothing unless Wanted.
func (e *Exporter) Serve(ctx context.Context) error {
	if !Wanted() {
		return nil
	}
	otel.SetErrorHandler(&complaints{log: e.Notes})
	to, err := otlptracehttp.New(ctx)
	if err != nil {
		return fmt.Errorf("export traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "diapause"), attribute.String("service.version", e.Version)), resource.WithFromEnv())
	if err != nil {
		return fmt.Errorf("export traces: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(to), sdk.WithIDGenerator(given{}), sdk.WithResource(about))
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
		if !live && v.Op == nil {
			return // it was over before
		}
		if t := v.Transition; v.Op != nil && v.Op.Trace == "" && t.Evidence != nil && t.Evidence.Activity != "" {
			trace, err := e.TraceOf(ctx, t.Evidence.Seq)
			if err != nil {
				e.Notes.Debug("an operation begins a trace of its own", "op", t.Op, "err", err)
			}
			op := *v.Op
			op.Trace, v.Op = trace, &op
		}
		send(ctx, t, f.Add(v))
	}, func() { live = true })
}

// send gives spans to the SDK.
func send(ctx context.Context, t trace.Tracer, spans []Span) {
	for i, s := range spans {
		if i > 0 {
			s.Parent = trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.Trace, SpanID: spans[0].ID, TraceFlags: flags(spans[0].Parent)})
		}
		within := context.WithValue(trace.ContextWithRemoteSpanContext(ctx, s.Parent), idsKey{}, s)
		_, span := t.Start(within, s.Name, trace.WithTimestamp(s.Start), trace.WithAttributes(s.Attributes...))
		for _, event := range s.Events {
			span.AddEvent(event.Name, trace.WithTimestamp(event.At))
		}
		if s.Failed != "" {
			span.SetStatus(codes.Error, s.Failed)
		}
		span.End(trace.WithTimestamp(s.End))
	}
}

// flags are those of an operation's spans: what its caller doesn't record isn't recorded here.
func flags(parent trace.SpanContext) trace.TraceFlags {
	if parent.IsValid() {
		return parent.TraceFlags()
	}
	return trace.FlagsSampled
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

// complaints are errors of exporting: one is logged, then those like it for quiet aren't.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	said time.Time
}

const quiet = time.Hour

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.said.IsZero() || now.Sub(c.said) > quiet {
		c.said = now
		c.log.Warn("traces aren't exported; sessions aren't affected, and this isn't said again for an hour", "err", err)
	}
}
