// Package scheduler decides which sessions are suspended for want of use and
// which are woken, from the activity stream and the session records.
//
// One goroutine (loop.go) owns what is known of every session, packed (packed),
// since there may be a million of them. Readers bring it records and activity by the
// batch (inbox.go); it hands a session to session.Decide when its record changes, when it
// is woken, or when its time has come (queue.go): activity alone makes nothing come
// earlier, so that a session in use costs no decision. Acting on a verdict (act.go) reads
// the record from the leader, and is one compare-and-swap on it and a command to the
// host. Suspends that are due wait for room on their host and in the store, what matters
// least first (pace.go); hosts that are too full are relieved (pressure.go), and room
// is made for whoever asks (room.go), in one order for all who give places away. A wake that
// a tenant's quota has no room for has another of that tenant make some, or waits (quota.go).
//
// Of several schedulers one acts, as its Lead says; the others take everything in all the
// same. Two that act beside each other are harmless: the swap of the second is refused.
//
// The package never touches a session's processes or images, and never decides
// by a publisher's clock.
package scheduler
