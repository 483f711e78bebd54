// Package schemas is the wire vocabulary of Diapause: the names, records,
// messages and image headers that its parts exchange or store, and nothing that
// acts on them.
//
// The way through it: ids.go (what things are called), record.go (the session
// record and its transitions), activity.go (what services publish), command.go
// (what wakes a worker), image.go (the signed clear header of a snapshot), keys.go
// (who reads and writes images), fingerprint.go (what a host can run), api.go (what
// clients ask and get).
//
// Every type here has a JSON Schema under jsonschema/; a test of the e2e module
// checks the two against each other. The package never does I/O and imports the
// standard library alone, so that anything may import it.
package schemas
