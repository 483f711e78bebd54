// Package treecopy copies files and directory trees into and out of the root of
// a session or a container, for clients that ask for it over package attach.
//
// Receive unpacks the tar stream that a client sends, Send packs what is there
// into one; Open and ReplaceFile are what they are built on. Every path is
// resolved within the root directory that the caller opened: no symlink inside
// leads out of it. Only files, directories and symlinks are copied.
//
// The package never decides whether a session may be written to at the moment:
// its caller keeps captures away meanwhile.
package treecopy
