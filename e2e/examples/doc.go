// Package examples holds the tests that run the examples of events/examples, in Go,
// Node.js and bash, as their users would: without credentials, against a real
// Diapause, with a suspended session that they wake and keep awake.
package examples
