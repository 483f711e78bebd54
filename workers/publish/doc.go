// Package publish lets ports of a session with a private network be reached at ports of its host.
//
// Parse (publish.go) reads what `run --publish` says. Listen takes the host's ports, before the
// session is made, so that one that is taken refuses the session. Serve then connects each
// connection to the session (serve.go), until Close. Those that are idle make room for new ones (idle.go).
//
// It never says that a session is in use: an open connection is one of the session's own, which its
// host sees. It holds no port of a session that is suspended.
package publish
