// Package rebuild makes the session records again after they went back: NATS was restored
// from a backup, or its store was lost.
//
// A Rebuilder compares the log of sessions with what its host saw of it, before the host does
// anything and for as long as it serves (followlog.go). If transitions are missing it writes
// for each session what package recovery plans from the log, the host's ledger, its processes
// and the signed images (rebuild.go). All hosts of a fleet do that together and wait for each
// other (generation.go).
//
// The package never ends a process and never removes an image.
package rebuild
