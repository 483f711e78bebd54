// Package inventory lists what the kernel keeps for the processes of a tree that stands still,
// and compares two such lists: of a session and of what was restored from its image.
//
// Take reads /proc and looks at open files themselves (take.go, process.go, files.go,
// sockets.go, mappings.go); nothing that it looks at changes by that. It reads each file once
// (read.go), and hands on what else the processes' owner must know of them (seen.go). What differs in any
// restore, or means nothing to a program, is left out or put in other words there: numbers of
// namespaces, pids outside the session, what has gone by of a timer. Compare (compare.go)
// is pure: each aspect has a class in a table (classes.go) that says what a difference in it
// means. Digest says whether two inventories are equal.
//
// Inode numbers of files with a name in the session's root are compared, but not those of files
// that the copy's view of the root has of its own, such as one that was written to: TakeCopy
// knows them by their device. Numbers of directories aren't, for a view has its own.
// Flags of mappings (flags.go) are, of the processes that callers name: to read them takes
// longer than all else.
//
// What a watch of inotify watches is compared by its path, where that is known (watched.go): inodes of a
// copy's directories have other numbers.
//
// Interval timers (setitimer, alarm) aren't compared, nor whether a POSIX timer is armed: the
// kernel shows these to their process alone, and the copy executes nothing. /proc/timer_list, which root may
// read, has them by the address of a function and without a process. Contents of memory
// and files aren't either.
package inventory
