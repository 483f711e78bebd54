// Package scheduler decides which sessions are suspended because they aren't used and
// which are woken, from the activity stream and the session records.
//
// One goroutine, the loop (loop.go), owns all that is known. Readers bring it records and
// activity in batches (inbox.go). It folds these into the table (table.go), where views are
// packed (packed.go), since there may be a million of them; it hands a session to
// session.Decide when its record changes, when it is woken, or when its time has come
// (agenda.go, queue.go): activity alone makes nothing come earlier, so that a session in
// use costs no decision. The parts of the loop each have one job:
//
//   - actor (act.go) reads the record from the leader, swaps it once, and sends the host a
//     command; it publishes events.
//   - hosts (hosts.go, reservation.go) counts what hosts have, and lists suspends that are
//     due until their host and the store may begin one more, what matters least first.
//   - evictor (evict.go) suspends what matters least on hosts that are too full, and where
//     a slot is asked for (room.go, prospect.go). What machines use (pulses.go) is evicted for no slot
//     that is wanted at once.
//   - quotas (quota.go) counts what tenants have running, and waker (wake.go) wakes within
//     that: a wake that the quota has no room for has another session of the tenant evicted,
//     or waits.
//   - notifier (notices.go) publishes that suspends are near; lag (lag.go) holds suspends
//     back while activity is heard late.
//   - history (use_history.go, uses.go) records what `policy simulate` reads.
//
// Of several schedulers one acts, as its Lead says; the others take everything in as well.
// Two that act beside each other are harmless: the swap of the second is refused.
//
// The package never touches a session's processes or images, and never decides
// by a publisher's clock.
package scheduler
