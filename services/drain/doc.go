// Package drain takes the sessions of a host elsewhere that an operator takes out of service.
//
// Plan (plan.go) decides, for each session of the host, whether it is suspended, moved or waited
// for, and why; it changes nothing. Drainer (drain.go) makes a pass over each host that is to be
// drained, again and again until nothing is left there, and carries out what Plan says: one
// compare-and-swap a session, of the very revision that Plan saw. So a session that came to run
// since is left for the next pass. Two drainers beside each other are harmless.
//
// A session that isn't in use is suspended: it is resumed elsewhere when it is used. One that is
// never suspended for idleness is moved. One that is in use, or of which that isn't known, is waited
// for, unless the operator forces it: then it is moved, or suspended if no other host can take it.
// The package never ends a session and never touches one that sleeps: its next resume is placed
// elsewhere, since a host that is drained is cordoned.
package drain
