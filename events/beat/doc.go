// Package beat makes what a process does from time to time happen at the same moments, so that an idle process
// is woken once for all of it: each wake costs a third of a millisecond of CPU.
//
// It is for looks at what is near alone: what goes over a network would
// come from all hosts at once.
package beat
