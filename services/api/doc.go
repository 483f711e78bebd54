// Package api answers what clients ask: a NATS micro service whose verbs read
// session records, change them by compare-and-swap, and wait for what comes of
// it.
//
// server.go registers the verbs; board.go follows the log, so that a request can
// wait for the outcome of its own operation; the verbs are in lifecycle.go
// (run, suspend, resume, ensure, checkpoint, rm), copies.go (fork, rollback,
// snapshots), read.go (list, show, history, explain, audit) and keys.go (who reads
// and writes images), and usage.go. trigger.go makes checkpoints for what agents say.
//
// The package never runs or captures anything: a worker does, when it finds the
// op in the record. Looking is never activity.
package api
