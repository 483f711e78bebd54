// Package worker executes what session records ask of one host.
//
// A record's op says what to do; a command is only a hint to look. One actor per session
// (actors.go) has the executor (executor.go) read the record, remove what another host has
// taken over (hosting.go, retained.go), bring record and host together (reconcile.go,
// ending.go), claim the op by compare-and-swap and do it, and then read the record again:
//
//   - the starter starts and restores sessions, and puts a snapshot in a session's place
//     (start.go, resume.go, prove.go). What became of a start or a restore is decided by
//     one pure function (outcome.go);
//   - the capturer takes snapshots and suspends (capture.go, reap.go), while the interrupter
//     listens for activity or a new revision that stops it (interrupt.go);
//   - the killer ends processes (kill.go), the remover deletes sessions (remove.go, shred.go).
//
// All of them write through the recorder (recorder.go, progress.go). The Worker wires the
// parts, finds its sessions when it starts (adopt.go), and wakes the actors (feeds.go). Its
// other jobs have packages of their own: snapshots reads and writes images, sense observes
// sessions, connect relays clients, rebuild makes lost records again.
//
// The package never decides that a session should be suspended or resumed, and never kills a
// process tree before its image is durable and the record points at it.
package worker
