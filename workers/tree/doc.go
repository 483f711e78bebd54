// Package tree sees what the processes of a session hold, from /proc alone and
// while they run: memory, connections, open and mapped files.
//
// Memory, Connections and Files each take the process ids of the tree, as this process
// sees them (a cgroup lists them), and return what they find in one pass. FDs and
// Mappings are the same for one process, for who wants to look closer.
//
// It stops nothing, changes nothing and judges nothing. The tree goes on while it is
// read, so that processes and files come and go: what is gone by the time it is looked
// at is left out, and is no error.
package tree
