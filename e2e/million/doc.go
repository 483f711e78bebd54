// Package million measures what deciding about a million sessions costs: how fast
// one scheduler on one core folds the activity stream, beside a bare ordered
// consumer in the same run; what it remembers of each session; how soon after a
// restart it is ready; how late its decisions are while activity pours in, and where that
// time goes; and what NATS itself needs.
//
// world.go says what the sessions are, fill.go writes them into real streams,
// servers.go and child.go run NATS servers, schedulers and consumers as processes of
// their own (so that memory is counted apart, and one core is one core), load.go
// makes the traffic, run.go puts them in order, and table.go writes RESULTS.md. Its
// command, `make bench-million`, does all of it; -n 50000 is a quick look.
//
// What a scheduler does with each record and message has benchmarks of its own beside it
// (go test -bench . ./events/session ./services/scheduler), which benchstat compares.
//
// MeasureMemory looks at what one server holds for a session, and of that what Go hasn't collected yet
// (memory.go); package bench writes it down.
//
// The package decides nothing: a figure that missed its aim stands in the table.
package million
