// Package lease keeps the hosts' leases: who holds one is there, and who lost one
// may own no session until it has taken a new one.
//
// A worker's Holder takes its host's lease and renews it by compare-and-swap,
// three times a term. Only a renewal that is known to be stored counts, and it
// counts from before it was sent, by the clock that goes on while the machine
// sleeps (Now). An Observer hears of every renewal and judges by its own clock alone
// (Judge). It reads a lease again and again from when a renewal is overdue, and calls
// it run out if its revision stood still for its term and a margin, and the observer
// could read all the while since then. Expire then ends it,
// again by compare-and-swap, so that the holder's next renewal is refused. Touch
// says that an ended lease is ended still: a part that takes over a session reads its
// record first, then touches the lease, then swaps the record, and so loses to
// any write of the host after it had taken a new lease.
//
// An Office is a lease that one of several processes holds at a time: the scheduler
// that acts. It is for efficiency alone.
//
// A lease is no lock: between its end and the host's noticing, only the fences
// of the records and of the shims keep a session from running twice. The package
// never touches a session.
package lease
