// Package core changes criu's images, most of them those of the state of threads (core-PID.img),
// where a session is to come back other than criu would have it.
//
// Again (restart.go) lets threads that were captured in the middle of a waiting system call
// wait on. The kernel keeps what it needs to continue such a call (poll, nanosleep, futex
// with a time limit) where no program can read it, so criu makes the call fail
// with EINTR: without any signal, which programs that never expect one take for
// a failure. Again has the call made again from its beginning. Its time limit then starts
// again, except where it is a point in time; a sleep goes on with what was left of it, where its
// caller gave the kernel a place to write that to, as libc's sleep does. Interrupted reads criu's log for the threads it
// happened to. It knows x86-64 alone, and leaves a thread as it is wherever it isn't sure.
//
// EndWithParent (parent.go) has the kernel end a process when its parent ends.
//
// Limit (limit.go) gives what is restored the limits that sessions have today: an image may be
// older than a limit, or come from a session that was allowed more. It takes capabilities from
// every thread, and has CRIU load the session's filter of system calls (seccomp.img) before those
// that programs loaded themselves; the filter that the session had from Diapause when it was
// captured, known by its digest, is replaced. It never loosens: what a thread had no capability for
// it doesn't get, and a filter stays unless it is Diapause's own.
//
// MountPoints and KeepMounts (mounts.go) fit what an image has mounted to a host that lacks a place for it.
//
// They read an image and write it again with all that they don't know (message.go); the
// package runs nothing and touches no process.
package core
