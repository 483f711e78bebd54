// Package canary proves that sessions can be captured and restored on this
// machine, by doing it to one.
//
// Run starts a small session through a driver (canary.go), asks it how it is, over its
// terminal and over TCP (talk.go), captures it into memory (image.go), kills it,
// restores it, and asks again. The session runs Program (program.go), which is part of
// the binary that calls Run: it has what the canary is to prove, a terminal, a TCP
// listener, a child process behind pipes, and memory with a content that can be
// checked.
//
// It never writes what it captures anywhere but into memory, and it leaves no
// process, socket or cgroup of the session behind, even when a step fails. If the process
// that runs it is killed, the program inside ends by itself after Life, and the
// driver's Recover and Stop remove the rest.
package canary
