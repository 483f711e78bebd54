// Package snapshots reads and writes the snapshots of one host's sessions.
//
// A Store says for each tenant who can read an image and who may sign one (keyring.go),
// opens the image that a record names (store.go) and begins a new one, with the session's
// record in it (record.go). What the next image of a session is matched against is kept
// here, in encrypted files or in memory (pages.go, pagefiles.go). It opens and seals
// what else is kept of a session: its spec and its last output (sealed.go).
//
// The package never decides that a snapshot is taken, restored or deleted, and never writes
// a record.
package snapshots
