package worker

import "runtime/debug"

// muchMemory is the size of an image, in bytes, whose writing or reading leaves
// buffers behind that are worth giving back at once.
const muchMemory = 64 << 20

// giveBack returns the memory that an image of that size took to the system: the next image may
// come hours later.
func giveBack(size int64) {
	if size >= muchMemory {
		debug.FreeOSMemory()
	}
}
