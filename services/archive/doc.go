// Package archive keeps the log of sessions from growing for ever: it moves revisions that
// are older than a policy says from NATS to signed and encrypted segments in the object store
// (package segment), and reads them there when they are asked for.
//
// The way through it: policy.go decides which revisions of a session are due, without any
// I/O; archive.go carries that out in steps, each of which can be the last of its process;
// head.go is the record in NATS that says where the chain of segments ends; wentback.go finds
// out whether the log is still the one that the segments are of; reader.go gives the log
// with what was moved, in one piece.
//
// Revisions are purged only after they were read back from a segment and the head names it.
// The package never purges the newest revision of a session that isn't removed, never more
// than one session's at a time, and never by the clock of this machine. Several archives
// at once do no harm: the head is changed by compare-and-swap.
package archive
