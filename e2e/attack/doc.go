// Package attack holds attempts to get out of a session, to reach what is another's, or to stop
// Diapause: each with the refusal that is expected, tried on the real program. ATTACKS.md lists
// them; TestTable compares it, and writes it with -update.
//
// An attempt that runs beside Diapause rather than in the test (attempt.go) is a function of this
// package, which the program in inside runs: in a session with each kind of network (kernel.go, files.go,
// processes.go, reach.go), as a user of the machine without credentials, or on another machine. Most of
// them are also tried by root on the host, where they must succeed: an attempt that fails everywhere proves
// nothing. Attempts that the test makes itself, with other credentials or by Diapause's own verbs, are in
// the tests.
package attack
