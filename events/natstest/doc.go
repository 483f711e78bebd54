// Package natstest runs real NATS servers for tests, each with JetStream in a
// directory of its own on a free port of the loopback, and connects to them.
//
// Streams is what most tests want: a server that has all of Diapause's streams and
// buckets. Tests that stop their server, or connect in a way of their own, take Serve,
// ServeWith and Connect. What they start ends with the test.
//
// The package is for tests alone: its failures fail the test. The servers have
// no credentials and don't sync their writes; how Diapause's own server is set up is
// services/embedded.
package natstest
