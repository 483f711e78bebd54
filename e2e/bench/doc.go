// Package bench measures suspend and resume by stage, beside what people do
// today with the same kind of process in the same run: criu dump, tar, zstd, age
// and a copy, and all of it back.
//
// The way through it: a process of package hold has memory of known content;
// Session suspends and resumes it as a session of a daemon, Today by hand; each
// gives Measurements, which Lines prints for benchstat and Table for people.
// `make bench` (cmd) runs all sizes and writes RESULTS.md.
//
// MeasureSessions measures what small sessions take (small.go), what idle ones cost,
// what becomes of many that are suspended and woken at once (many.go), and what the
// rehearsal of a suspend takes (rehearsal.go), with nothing beside it; it writes SESSIONS.md.
//
// Compare stores to one S3 server in three ways: by a session's suspend, by the
// pipeline of tar, zstd and age, and by restic, first and after changes (compare.go);
// meter.go measures the machine meanwhile, and Compared makes the document,
// with the ratios that are aimed at.
//
// MeasureLosses kills hosts, and measures until their session answers elsewhere (loss.go); it writes
// LOSSES.md.
//
// MeasureForward carries bytes to a port of a session and back, directly and through NATS, beside socat
// (forward.go, relay.go); it writes FORWARD.md.
//
// MeasureWakes has requests resume sessions through the gateway, by stage, and asks one that runs (wake.go, warm.go); it
// writes WAKE.md.
//
// MeasureFleet measures what one host does in a minute, what it says to NATS meanwhile and when it is idle, and
// what NATS holds for a session (fleet.go); it writes FLEET.md, worked out to a thousand hosts.
//
// Every resume is checked: the memory has the digest that it had before. What
// the check takes is in no figure.
//
// The tests run little of each. Sessions, losses, forwarding, the fleet and the comparison are
// among them with DIAPAUSE_LONG=1 alone.
package bench
