// Package layer takes a directory tree into an image and out of it again, exactly:
// owners, modes, times, extended attributes, holes, hard links, devices, and an
// overlay's whiteouts.
//
// Add walks a tree that stands still and gives its entries to a sink, with a stamp for
// each file that proves its content (stamp.go), so that a sink which has that content
// already doesn't have it read. Ahead does the same for the contents alone while the
// tree is still in use, so that little is left to be read when it stands still.
// Extract puts the entries of one part of an image below a directory, and tells the
// stamps of what it made (fresh.go); an Extraction does it entry by entry. Clear
// empties a directory.
//
// A session of the criu driver has its private layer as a file system of its own: package
// ext4 makes, mounts and reads those, since a directory that is made again has other inode
// numbers. Extract is for images of earlier versions and hosts without loop devices, and
// for containers.
//
// It never follows a symbolic link, neither out of the tree that it reads nor out of
// the one that it fills, even if the entries are forged; and it never decides that a directory
// may be emptied.
package layer
