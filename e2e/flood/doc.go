// Package flood holds the test of a local user without credentials who publishes as fast as
// the machine lets it, beside sessions that are kept awake by leases alone: none of them may
// be suspended, another is woken as before, and memory, log and streams stay small. On a disk that
// is nearly full such a user is refused, and what is recorded goes on.
//
// The flood names sessions that don't exist, each message another: one that named the leased
// sessions would keep them awake by itself.
package flood
