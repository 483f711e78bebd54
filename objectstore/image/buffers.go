package image

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bufferSize is what frames and spans of usual images have, in bytes.
const bufferSize = 1 << 20

// buffers are what frames and spans are read into, used again and again. They are mapped from
// the system, so that a pipe may refer to them: what it refers to stays as it was, even when
// a buffer is unmapped.
type buffers struct {
	mu     sync.Mutex
	free   [][]byte
	mapped map[*byte]bool // all of them, by their first byte
	closed bool
}

func newBuffers() *buffers { return &buffers{mapped: map[*byte]bool{}} }

// get returns an empty buffer that has room for n bytes. What is larger than a buffer, or much
// smaller, is of the heap.
func (b *buffers) get(n int) []byte {
	if n > bufferSize || n < bufferSize/2 {
		return make([]byte, 0, n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.free) - 1; last >= 0 {
		buf := b.free[last]
		b.free = b.free[:last]
		return buf
	}
	buf, err := unix.Mmap(-1, 0, bufferSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return make([]byte, 0, n)
	}
	b.mapped[unsafe.SliceData(buf)] = true
	return buf[:0]
}

// put takes back what get has given, to be used again.
func (b *buffers) put(buf []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.mapped[unsafe.SliceData(buf)]:
	case b.closed:
		b.unmap(buf)
	default:
		b.free = append(b.free, buf[:0])
	}
}

// discard takes back what get has given and a pipe may still refer to.
func (b *buffers) discard(buf []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mapped[unsafe.SliceData(buf)] {
		b.unmap(buf)
	}
}

// unmap gives a buffer back to the system. Callers hold mu.
func (b *buffers) unmap(buf []byte) {
	delete(b.mapped, unsafe.SliceData(buf))
	_ = unix.Munmap(buf[:bufferSize]) // it was mapped like that
}

// lendable reports whether a pipe may refer to the bytes of what get has given.
func (b *buffers) lendable(buf []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mapped[unsafe.SliceData(buf)]
}

// close unmaps what is free, and what is put back from now on.
func (b *buffers) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, buf := range b.free {
		b.unmap(buf)
	}
	b.free = nil
}
