// Package metrics counts what one process of Diapause does, and serves that to
// Prometheus, with the answers to "are you alive" and "can you work, and if not, why".
//
// A Meter holds the counts (meter.go). Most of them come from one place: every change of
// a session is a swap of its record, so the hook of the records (swaps.go) sees each
// suspend, resume and failure of this process once, with its steps and sizes. The store of
// images is counted by a decorator (store.go), activity by another (activity.go). What the
// parts know themselves is read from them at each scrape (gauges.go). Health is what
// each part says of itself (health.go), and Server serves it all (serve.go).
//
// Counters are of this process and are to be summed over processes; gauges named
// diapause_sessions are of the whole fleet and are the same wherever they are read.
//
// No tenant, session or run is ever a label, and nothing here holds a lock while a session
// is worked on: counting is an atomic addition.
package metrics
