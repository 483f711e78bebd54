// Package criu is the driver that runs sessions as process trees under shims,
// and captures and restores them with CRIU.
//
// New takes the Options; Find looks for criu. Start and Restore (start.go, restore.go)
// launch a shim (launch.go) and talk to it while it sets the session up; every later
// call finds the shim by its socket (shims.go), so a driver made after a crash knows
// all that an older one did. Capture (capture.go) reads the image out of the shim's
// memory into the sink; Restore verifies names and puts it back (lower.go; package
// layer for whole trees). Where there is no room for an image in memory, its large
// parts go through pipes between criu and the sink or the source (stream.go). fence.go
// keeps the highest epoch of each session on disk. rooted.go has sessions whose root is a
// container image, which package rootfs unpacks.
//
// CaptureRehearsed (rehearsal.go) has the shim restore the image in quarantine while the rest
// of it is added to the sink.
//
// What a session is isolated from: it has its own processes, mounts, IPC, host
// name and, unless its spec says otherwise or nothing, network; it sees the host's root (or a directory or container image in
// its place) through an overlay, so that what it writes is its own; it can't
// reach the data directory, nor what else is hidden (package hide). Root inside has the capabilities of a usual
// container without MKNOD, behind a filter of system calls (package confine). It is no boundary against
// code that attacks the kernel: there is no user namespace, and with the host's network it
// reaches what listens there. Other file systems that are mounted on the host
// (a /home of its own) are not seen inside: below their mount points the session
// sees what the root file system has there.
//
// What a crash leaves: before the first instruction of a session its shim writes a state
// file, synced, which stays until Stop, even if the start or the restore failed after it.
// So a session that isn't here at all has never run here at that epoch, although its record
// says that it runs. One that ran and was lost is reported as Exited and Lost, with the
// reason: a shim that is killed takes its session with it, and what was in no image is lost.
// If a worker dies during a capture, the shim thaws the session. Once Capture has returned,
// the session stays frozen, since its image may be committed.
//
// The driver never kills a criu that dumps, never writes an image or a secret to a disk, and
// never destroys a session without an order.
package criu
