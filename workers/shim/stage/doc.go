// Package stage is what runs inside a session before its command does: the
// first process of new namespaces, which makes the session's file systems,
// starts the leader and becomes the session's init; and the short-lived process
// that brings one more command into a session that runs.
//
// The shim starts its own binary with Main and the words "first" or "join", puts it
// into the session's cgroup, and sends it a Config by the control socket. "first"
// mounts (mounts.go), drops privileges (privileges.go) and starts the leader stopped
// before its first instruction (command.go); it answers with a Report, waits for the
// word to go, lets the leader run and executes the tiny init in place of itself.
// "join" starts its command and ends, so that the command becomes a child of the
// session's init.
//
// It never touches anything by a path of the host once the session's root is
// in place, and leaves no descriptor of its own behind: what is open in a
// session is part of its image.
package stage
