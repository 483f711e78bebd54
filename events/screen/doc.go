// Package screen is a terminal's screen without a terminal: a Screen takes the bytes that a program prints, and
// knows what they come to; Paint gives bytes that make any terminal show the same.
//
// The way through it: parser.go cuts the bytes into text, controls and sequences. Screen (screen.go) carries them
// out: print.go draws, csi.go moves and erases, modes.go switches, sgr.go colours, strings.go takes titles, links
// and colours; grid.go is the cells. paint.go is the way back. answer.go answers what a program asks of its
// terminal. Filter (filter.go) takes such questions out of a stream of bytes, so that those who watch don't answer.
//
// Playback (playback.go) shows a recording on a Screen, and gives the lines that leave it. View (view.go) shows a Screen on a
// terminal that need not trust it.
//
// A sequence that isn't complete is no part of a screen: Offset is the position of its first byte, and what
// follows from there on completes it. So a Paint and the bytes from its Offset are all that a client needs.
//
// A cell is eight bytes: there is a Screen in every shim. Colours and links are kept once for all cells that have
// them. There is no scrollback. What isn't kept: double-width lines, left and right margins, protected cells,
// images, and modes that a terminal reports something for as soon as they are set (focus, size, colour scheme).
//
// Its tests compare it with xterm.js (testdata/xterm), on what programs printed (testdata/programs, which
// e2e/programs/cmd records), on single sequences and on random output.
//
// The package never asks a terminal anything, reads no clock and starts nothing.
package screen
