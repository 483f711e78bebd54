// Package scheduler decides which sessions are suspended for want of use and
// which are woken, from the activity stream and the session records.
//
// One goroutine (loop.go) owns what is known of every session and hands each to
// session.Decide when something is heard of it or its time has come; acting on a
// verdict (act.go) is one compare-and-swap on the record and a command to the
// host. Two schedulers beside each other are harmless: the swap of the second is
// refused.
//
// The package never touches a session's processes or images, and never decides
// by a publisher's clock.
package scheduler
