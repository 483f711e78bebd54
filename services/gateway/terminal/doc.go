// Package terminal carries a session's terminal over a WebSocket: the screen first, then the output from an exact
// position, and what is typed with positions of its own, so that a connection that is made again repeats and
// misses nothing. ../TERMINAL.md is the protocol.
//
// The way through it: Serve (serve.go) reads the client's first message and runs what belongs to one socket.
// stay.go has the session run and connects to it, as often as that takes; stream.go carries one of those
// connections. keyboard.go is what was typed and isn't confirmed, flow.go what was sent and isn't shown,
// message.go what the two sides say.
//
// The screen is the session's own (events/screen, in its shim): this package keeps none. It takes out of the output
// what a terminal would answer, as the session's end answers that.
//
// Who may only watch (Options.Watch) has the same with less: serve.go refuses what such a client says, stream.go sends
// nothing of it to the session.
//
// It never authorizes, and never has more than a piece of the output in memory.
package terminal
