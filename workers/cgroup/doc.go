// Package cgroup holds the processes of a session together: it limits them,
// freezes them as one, counts what they use and kills all of them.
//
// Open finds the hierarchies that this process can see (version 1, one or more
// controllers each; version 2; or both beside each other), and a directory of our own
// in each. Create makes a Group there, Start begins a command in it, Add puts a process into it,
// and from then on all its descendants are in it. Each need (freezing, memory, processor time, number
// of processes) is served by the version 1 hierarchy of that controller where there is
// one, else by version 2.
//
// It doesn't remember anything. Every answer comes from the kernel, so another
// process, or the same one after a restart, sees the same groups by opening the same
// parent. It never touches a group outside that parent, with one exception that a
// container of version 2 needs and that Open documents.
package cgroup
