// Package traces tells OpenTelemetry what was done to sessions, a trace for each operation: a start, a suspend, a
// resume, a checkpoint, a move, a removal.
//
// The traces are made from the log, by one that follows it, not by the parts that do the work. All that a trace
// says is in the log already: who asked and when, each change of state, and how long each stage took on its host. So
// an operation during which its worker is killed has its whole trace, a slow collector delays no session, and a part
// that exports nothing has no code for it.
//
// Fold (fold.go) takes revisions in the log's order and gives the spans of the operations that have ended; it does no
// I/O and reads no clock. Exporter (export.go) follows the log and sends them by OTLP over HTTP, with the SDK's own
// variables (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/). IDs follow from the
// operation's: of two exporters both send the same spans.
//
// The stages that follow each other are laid end to end, up to the revision that reports them; how long others took
// beside them, as compressing and storing do, is an attribute. A caller's own trace goes on in the operation that it
// asked for, or that its activity woke: its context (https://www.w3.org/TR/trace-context/) comes in the header
// traceparent of the request, which is noted in the record, or of the activity.
//
// The package never sends what sessions hold, print or are called with: no arguments, no environment, no reasons.
package traces
