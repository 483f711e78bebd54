// Package loopback holds the test of what crosses the loopback device while `diapause up`
// works, with HTTP by TLS (`--tls self`): a packet socket hears all of it, as a process in the host's network can, and none
// of what sessions do, say or are given may be in there, nor any credential.
//
// sniff_test.go hears and remembers, loopback_test.go plays a session's life. Each test has a
// network namespace of its own, so it hears no other test.
package loopback
