// Package doctor finds out whether this machine can run Diapause, and says for
// each thing that is wrong what to do about it.
//
// The way through it: a Check proves one thing, by doing it where that is
// possible; Run (engine.go) carries a list of checks out in order, and skips those
// that need one that failed; TextWriter and Report, encoded as JSON, tell the
// outcome (print.go). The checks themselves: the machine and what the process may
// do (machine.go, capabilities.go), mounts and namespaces, tried in a mount
// namespace of their own (isolated.go, mounts.go), the data directory
// (data.go), the object store (store.go) and NATS (nats.go). Checks of what
// captures sessions are the caller's: the package knows no driver. README.md says
// what each check proves and what the fields of the JSON mean.
//
// It changes nothing that lasts: what it writes goes into a Scratch directory or
// under names of its own, and is removed; what a doctor that was killed left is
// removed by the next one (scratch.go). It never prints a secret, and never makes
// the data directory.
package doctor
