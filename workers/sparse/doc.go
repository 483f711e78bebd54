// Package sparse writes files with holes in the place of long stretches of zeros: what is unpacked
// from an archive or an image takes no more of the disk than it has in it.
package sparse
