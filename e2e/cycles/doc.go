// Package cycles suspends and resumes one session again and again, and finds that
// nothing drifts: what it has in memory and in files, their inode numbers, and what
// the daemon, the shim, the kernel and the store hold for it.
//
// TestCycles does it 5 times, 100 times with DIAPAUSE_LONG=1, and another test counts what a
// daemon without sessions asks of NATS. It never looks at the
// number of a file that was unlinked while it was open: CRIU makes that one again.
package cycles
