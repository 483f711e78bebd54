// Package connect connects clients to the sessions of one host.
//
// A client dials a subject of the host and says in its first message which session it wants
// (attach.Hello). The Server dials the session through its driver and copies both ways (connect.go,
// splice.go). While a client is connected it publishes activity: presence, as a lease that
// is renewed, and input (activity.go). A session that isn't on the host has its last output
// replayed. A client that forwards a connection may be offered a direct one, which comes with a
// grant in place of the first message, and is served in the same way (direct.go).
//
// The package never starts or resumes a session: a client asks the API for that first.
package connect
