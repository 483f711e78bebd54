// Package marks finds the commands in what a shell's terminal shows: where one begins and ends, its text, its working
// directory and its exit status.
//
// Shells print marks for this: OSC 133 (A, B, C, D), as fish and nushell do, OSC 633 (A, B, C, D, E, P), as VS Code and
// Diapause's own integration (workers/shells) have it, and OSC 7 for the directory. A parser (parser.go) takes them out of the
// bytes, a Tracker (tracker.go) makes commands of them. The parser's memory is bounded, and sequences may come in any pieces.
//
// Any program can print marks. A Tracker believes them: they confuse the history of the terminal that they come from, and nothing
// else. The package reads no clock and starts nothing.
package marks
