// Package reach connects to a port of a session from within the session's own network, so that a
// session is reached that nothing else leads into.
//
// Dial enters a network namespace, on a thread of its own, and tries the addresses that a program
// there may listen at: the loopback first, then those of the interfaces. The connection that it
// gives works from any thread.
//
// It never changes anything of the namespace, and reaches nothing that isn't in it.
package reach
