// Package janitor keeps the object store in order: it deletes the snapshots that
// the retention policy doesn't keep, and what captures that came to nothing left
// behind, it has old revisions of the log moved to the store (package archive), and it checks
// that what is needed is there.
//
// The way through it: policy.go reads the policy, retention.go decides which
// snapshots go, without any I/O; janitor.go carries that out at intervals, check.go
// looks and changes nothing.
//
// It never deletes what a session's record points at, unless the policy says that
// suspended sessions expire; never anything while records or headers can't be read;
// never a lineage of which the log knows nothing: the store may be shared. Two
// janitors at once do no harm.
package janitor
