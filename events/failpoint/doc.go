// Package failpoint has names for the moments between the steps of the protocol,
// and lets a test, or an operator who tries his fleet, make something go wrong at
// any of them.
//
// A part that carries out steps is handed a *Set by its Options and calls At
// between two steps. A nil Set does nothing, at the price of looking at a pointer;
// a Set does what Arm or Parse said the n-th time that a moment is reached: an
// error, a pause, the end of the process. An error at a moment is an error before
// the step that follows and, for the one before it, an error after success.
//
// A moment of another process (a session's shim) is armed there, by the words that
// Text gives and Parse reads.
//
// Names are in names.go, all of them: nothing can be armed that no code reaches.
// The package has no globals, and nothing switches it on but the program that was
// asked to.
package failpoint
