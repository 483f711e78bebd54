// Package compat suspends and resumes real programs ten times each and checks
// after every resume that their state is what it was, and in the end that neither
// memory nor times grew.
//
// The way through it: RunAll takes a running daemon and the programs (package
// programs), and gives a Row for each; Write makes the table of them, and WriteDesktops
// that of desktops. The whole run is `make compat` (cmd), which writes RESULTS.md and DESKTOPS.md;
// a sample runs as a test.
//
// It never skips a program: one that isn't installed fails with what to install,
// and one whose state is lost is in the table with what was found.
package compat
