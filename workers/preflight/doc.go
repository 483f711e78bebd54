// Package preflight says what in a session can't be captured, by name: which
// program, which open file or mapping, why, and what to do about it. It does so
// while the session runs, before anything is frozen.
//
// Check gathers facts about each process of the tree from /proc, about its sockets by
// looking at duplicates of them, and about unix sockets from the kernel's list of them
// (gather.go, files.go, sockets.go, threads.go). Then Judge, which touches nothing, turns the
// facts into blockers and warnings (judge.go and the rules beside it). The rules are
// those of CRIU 4.2, each tried with the real one: what is named as a blocker fails to
// be dumped or restored there, or would come back as something else without a word.
//
// It stops nothing and changes nothing in the session. It doesn't promise that a dump
// works, for the session goes on after it was looked at: what ends meanwhile is left
// out, what begins later isn't seen.
package preflight
