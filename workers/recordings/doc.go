// Package recordings stores what the terminals of one host's sessions showed, and reads what was stored.
//
// A Spool makes the folder of each run of a session, which the session's shim fills with sealed segments (run.go), stores
// them one after the other, each with the digest of the one before, and takes them out of the folder (store.go, ship.go). Serve
// does that whenever a shim says that there are some; a capture does it before its image is durable, and puts End into the
// image. A Reader gives what was recorded of a session that runs, is suspended or has ended, on a host that has
// an identity of a reader (read.go).
// Import seals an asciicast that was recorded elsewhere in the folder of a run, as a shim would have (import.go, taking.go), which is
// one only once a session was made of it.
//
// Redact takes something out of all that is stored (redact.go).
//
// A segment is taken out of the folder only after the store has it. The package never opens a segment to store it,
// never wakes a session, and never decides for how long a recording is kept.
package recordings
