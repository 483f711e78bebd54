// Package embedded is the NATS server inside `diapause up`: JetStream with file
// storage that is synced at every write, on loopback, with the users that one
// machine needs.
//
// The way through it: server.go starts and stops the server, users.go makes the
// keys, accept.go decides who a connection belongs to, access.go says who may do what, room.go
// refuses clients without credentials while the disk is nearly full, log.go carries the
// server's log on.
//
// The parts of the process connect within it (InProcess). Every other connection crosses the
// loopback device, which a process with a packet socket can read and forge. So keys are accepted
// over TLS alone, by a certificate whose authority lies beside the files of credentials; without
// TLS a client is one without credentials.
//
// There are two accounts. DIAPAUSE holds all streams, and the users "system"
// (the parts of `diapause up`, which may do everything) and "client" (a process that
// may read the data directory: asks the API, reads streams, reports activity, but
// writes no record, no event and no command). EDGE holds clients without
// credentials: they may publish activity and nothing else. Activity crosses from
// EDGE to DIAPAUSE as a service, not as a plain stream of messages, for one
// reason: JetStream acknowledges a message to any reply subject that its publisher
// named, with the stream's rights and not the publisher's. Within one account,
// or over a stream import, an unauthenticated publisher that names a key of a
// bucket as reply subject overwrites that key. A service import replaces the reply
// subject by one that leads back to EDGE, where no client listens.
//
// The package makes no streams; that is the topology's work. It never opens
// another port (no monitoring, no cluster, no websocket).
package embedded
