// Package programs knows the real programs of the compatibility run: how each is
// started in a session, given state, and asked whether that state is still there
// after a resume.
//
// The way through it: All lists them; a Program's Prepare brings its state
// about, and its Check, called after every resume, compares what the program now
// says with what it said before, and goes on working with it.
//
// It never suspends or resumes anything itself, and never installs anything.
package programs
