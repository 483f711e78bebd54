// Package power cuts the power of the machine that runs the embedded server, as
// far as a disk can tell, and checks that no acknowledged write is missing when
// it comes back.
//
// The server, a process of its own, keeps its streams on a file system inside a
// file. At some moment all its threads are stopped, and the file is copied: that
// holds what had reached the device, and nothing that was only in memory (the
// file system writes nothing back by itself). A server is started from the copy.
// A server that doesn't sync is tried too, and must lose something: else the
// test would show nothing.
//
// The tests need root, mkfs.ext4 and a loop device.
package power
