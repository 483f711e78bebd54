// Package worker executes what session records ask of one host.
//
// A record's op says what to do; a command is only a hint to look. One actor per
// session (actors.go) reads the record, claims the op by compare-and-swap and
// drives it (start.go, suspend.go, resume.go, remove.go) through the driver and
// the image store, reading the record again after each step. While a suspend is
// under way undo.go listens for what would undo it. After a restart recover.go
// brings what the host has and what the records say together again; a sweep does
// the same for what nobody watches. sense.go reports what the worker sees
// sessions do, and dial.go connects clients to sessions.
//
// The package never decides that a session should be suspended or resumed, and
// never kills a process tree before its image is durable and the record points
// at it.
package worker
