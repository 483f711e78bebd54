// Package adopted is the driver of sessions that are process trees which others started: a
// program that a shell, a script or a person began on the host becomes a session as it runs.
//
// Look (facts.go) reads what /proc says of a tree, and Judge (judge.go) says what of that can't be
// a session and what will not come back: it is pure. Driver (driver.go) implements the port.
// Start puts the tree into a cgroup (join.go), Capture (capture.go) freezes that and has CRIU dump
// the tree, Restore (restore.go) brings it back with the pids that it had, and watch.go waits for
// its end. note.go is what a host remembers of such a session after a crash.
//
// The tree stays where it is: in the host's namespaces, with the host's files and network. It has
// no shim. A snapshot has its memory, not its files, and only the host that it is of can restore
// it, while its pids are free. Once restored, its first process is a child of what takes in
// orphans on the host.
//
// A process is known by its pid and the time at which it was started, and held by a pidfd while it
// is waited for. Before a session is recorded to run, nothing of its tree is changed but its
// cgroup, and that is put back if the adoption fails.
package adopted
