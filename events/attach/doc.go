// Package attach is the protocol of a connection to a session: a client follows
// the session's output, types to it, runs one more command in it, copies files, or
// connects to a port.
// Drivers serve it, the worker relays it, and command lines and gateways speak it.
//
// A client calls Do with a Request and its Streams; for a terminal whose connection
// may be lost and made again it keeps one Typing, and for a forwarded connection it calls
// Forward, or ForwardDirect where it takes offers of the host's (Offer). A server calls ReadRequest, answers
// with WriteFrame, and ends with FrameExit or WriteError. The output of a command is
// kept in a backlog.Log: FetchOutput reads it in the form that goes into an image,
// Replay answers a client from that form while the session is suspended. A client whose terminal is elsewhere asks for
// the Screen in place of what was printed before.
//
// SendImport sends a recording, of which the client then makes a session, to a host that serves it with ReceiveImport.
//
// The package never dials: a driver's Dial or a tunnel gives the connection. It
// knows no driver and no session, and writes nothing to a disk.
package attach
