// Package stack runs the real program for tests: it builds `diapause`, starts
// and kills `diapause up` on a data directory of its own, asks it through its
// command line, and says what a test has left behind.
//
// The way through it: Build makes the program once per test binary, New gives a
// Stack on an empty data directory, Up starts the daemon and waits until it is
// ready, Do runs a client verb, Close removes every session, stops the daemon
// and looks for processes, mounts, cgroups and files that should be gone
// (leftovers.go). A test that shares none of it begins with Fresh.
//
// It never looks inside the program: what it knows, it knows from the command
// line and from the machine. It needs root and an installed CRIU, and says so.
package stack
