// Package jump sets the wall clock of one running process and of no other: the program as
// it is, with a clock that jumps. Setting the machine's clock would disturb everything else
// that runs on it. It slows a process's disk down in the same way.
//
// A Go program asks the vDSO for the time, through a pointer in its data. Of finds the
// pointer by the program's symbols and has it lead through a few instructions of its own,
// which add to the wall clock what Set has said. The monotonic and the boot-time clock
// stay as they are, as they do when someone sets a machine's clock. DiskOf has the one
// place where a Go program makes system calls sleep before it syncs a file.
//
// It writes into the process by /proc, needs the right to trace it, and knows amd64 only.
package jump
