// Package permissions holds the tests of the server configuration that `diapause
// nats-config` writes: on a real NATS server with TLS and users of their own, every part
// may do what it needs, shown by a session that is run, suspended, woken and removed,
// and nothing else, shown by trying.
package permissions
