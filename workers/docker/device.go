package docker

import (
	"archive/tar"

	"golang.org/x/sys/unix"
)

// device gives the number of a device in a tar, as stat has it.
func device(h *tar.Header) uint64 { return unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)) }

// numbers are the two parts of a device's number.
func numbers(rdev uint64) (major, minor int64) {
	return int64(unix.Major(rdev)), int64(unix.Minor(rdev))
}
