// Package replay tells what would have become of sessions under a policy: it lets what
// was said of them happen once more, in no time, and has session.Decide decide.
//
// A Life is one session with all that was said of it; Run gives its Naps. Lives are made
// up (a day of synthetic life is a test of this package) or put together from a use history of
// what was heard (lives.go).
//
// The package reads no clock and does no I/O.
package replay
