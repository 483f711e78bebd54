// Package dir keeps objects in a directory of the local machine: the store of a
// single host, and of tests.
//
// The way through it: Open prepares the directory and clears away what a crashed
// process left unfinished; Store is the port's adapter. An object is one file
// under its name. It is written to the subdirectory ".tmp", synced, renamed to
// its name only if that is free, and its directory is synced, so that an object
// is there whole and for good or not at all (durable.go). The directories above are
// synced when a process first stores something in there, so that a later object takes two
// syncs. What would take the disk's last room is refused.
//
// Directories have mode 0700, files 0600. The package never follows a name out
// of its directory, never changes a file that has its final name, and never
// removes an unfinished file while its writer lives, in any process.
package dir
