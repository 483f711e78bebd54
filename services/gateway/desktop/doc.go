// Package desktop carries a session's desktop over a WebSocket: the bytes of RFB (RFC 6143), as a VNC server in the session
// speaks it at a port. ../README.md says how a client uses it.
//
// The way through it: Serve (serve.go) has the session run if the client asked for that, connects to its port and carries
// bytes both ways; the filter of package rfb reads each message of the client before the session gets it. What the session sends is carried
// as it comes.
//
// A client that may only watch is held to that here: of its messages the filter passes those alone that ask for pictures. A
// message that the filter doesn't understand ends the connection, so that both ends agree on where each one begins.
//
// Looking never wakes a session. A page that isn't visible, and pictures that move, are no use of it; keys and pointers are.
package desktop
