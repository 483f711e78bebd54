// Package recovery decides what the session records have to become after they went back: NATS
// was restored from a backup, or its store was lost.
//
// A host keeps, in a directory of its own, the last record that it saw of each
// session that it has or had (Ledger), and how far the log was (Mark). When it
// starts, and while it runs, that is compared with the log: a log that ends before
// what was seen, or that is another one, has lost transitions (Compare). Then Plan
// says for each session what the highest known epoch makes of it: the record in the log, the record that the host kept, the processes on the host, or a
// signed image in the store. The caller (package rebuild) records that as one transition of a
// higher epoch, before anything is decided, resumed, removed or collected.
//
// Nothing here ends a process or removes an image. A session that belongs to another
// host is left to that host. What no host has seen is not invented: a session whose
// record is lost everywhere comes back from its image's header, and says what is
// missing.
package recovery
