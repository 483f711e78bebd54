// Package hide keeps files of the host out of a session's root: the data directory, credentials,
// identities, stores, sockets of engines.
//
// Inside says where in a root they are: by what a path leads to, and by which file system and
// which path of that (mounts.go), so that a symlink or a bind mount to it makes no difference.
// Cover (cover.go) makes a layer for an overlay that is to lie above that root: an
// empty directory for a directory, an empty file without permissions for anything else, a
// whiteout for what isn't there. So nothing is mounted inside a session: nothing has
// to be captured or to be there on another host, and what is hidden is hidden from the view of
// a rehearsal, too. The layer is made again for each start and resume, from what the host has to
// hide then.
//
// Paths are hidden, not contents: another hard link to a file, a copy, and what a path leads to
// after it was changed are not. A session may make a file or a directory of its own in the place
// of what is hidden; it is in its own layer.
package hide
