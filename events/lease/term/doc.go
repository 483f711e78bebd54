// Package term says how long a host's sessions may run without another word: the clock
// that this is told by, and what one renewal of the host's lease gives.
//
// It is a package of its own so that what acts on a lease, drivers and shims, needs
// nothing of what keeps one: package lease, with its connection to NATS. It never reads or
// writes a lease.
package term
