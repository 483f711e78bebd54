// Package ext4 makes the file systems that sessions' private layers are, and reads them
// for an image.
//
// A layer is a file system of its own so that each file keeps its inode number wherever
// the layer goes: programs compare them (SQLite writes to no database whose number has
// changed). Format writes an empty one into a sparse file: some 25 blocks, for any size.
// Open looks at one that stands still, and Snapshot.Parts gives its content for an image:
// only blocks that the file system has allocated, and of its inode tables only inodes that
// are in use, so that what was deleted is in no image, whether its blocks were
// discarded or not. A Filler makes the same file system of them again.
//
// The content is cut into parts of 4 MiB, and each has a stamp, so that an image takes those from
// the one before that have not changed, without reading them. A stamp comes from the inodes of the
// files that the part has blocks of (files.go), and from the blocks of directories, tables and
// anything else there (part.go): reading these is what an unchanged layer costs.
//
// The file systems have no journal. A journal makes one consistent after the machine has
// crashed, and then the session is lost with its memory anyway; an image is taken
// while the file system stands still and is synced. Two things that a journal would bring
// are put into the image instead: it is marked clean, and files that are open but have no
// name are in the list of orphans, so that the next mount removes them (CRIU brings them
// back itself).
//
// Bound keeps a file system from promising room that its disk doesn't have (room.go).
//
// It never writes to a file system that is in use, and knows no more of ext4 than that: the
// kernel does the rest.
package ext4
