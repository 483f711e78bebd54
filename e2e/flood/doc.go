// Package flood holds the test of local users without credentials who publish as fast as
// the machine lets them, beside sessions that are kept awake by leases alone, half of them of a client with credentials: none
// of them may be suspended, another is woken as before, and memory, log and streams stay small. On a disk that
// is nearly full such a user is refused, and what is recorded goes on.
//
// One user names sessions that don't exist, each message another; one names sessions that do, with messages of a KiB. That
// are others than the leased ones, which it would keep awake by itself.
package flood
