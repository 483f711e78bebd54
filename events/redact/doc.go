// Package redact finds secrets, or what else is to be taken out, in text and in what a terminal shows.
//
// Text and Ranges are for text: what is left of output after emulation, or the text of a command. A Finder is for the bytes
// that a program writes to its terminal, in pieces: it looks at the text in them, so that a secret is found that escape
// sequences, the end of a row, corrections while it was typed, or the end of a piece are within, and says which bytes of the
// output the text is made of (scan.go). Secrets are the rules (rules.go); a Finder takes any others.
//
// Mask replaces what was found by as many bytes, which take as many columns: positions in the output, the layout of a
// screen and the times of pieces stay what they were.
//
// Rules can't know every secret. What a program shows a character at a time, each at a place of its own on the screen, is found
// only where the screen is shown as a whole. The package keeps nothing that it looked at, beyond what a Finder still waits for.
package redact
