// Package thread runs functions that change what belongs to an OS thread and can't be changed
// back, such as its namespaces.
//
// Discard (thread.go) runs one on a thread that ends when the function returns, so that no
// other goroutine runs on it, and that is never the process's first: /proc/PID and /proc/self
// show the first thread's namespaces, root and mounts as those of the whole process, and that
// thread lives on. Mounts (mounts.go) gives the thread a mount namespace of its own first.
package thread
