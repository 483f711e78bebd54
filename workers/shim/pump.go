package shim

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// pump moves what arrives on a pipe or terminal to a sink. It holds a lock from the read
// until the sink has the data, so that after drain none is in between.
type pump struct {
	file *os.File
	raw  syscall.RawConn
	sink func([]byte)
	room func() // waits until the sink can take more; may be nil

	mu  sync.Mutex
	buf []byte
}

// newPump reads from f, which must be non-blocking.
func newPump(f *os.File, sink func([]byte)) (*pump, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read from the session: %w", err)
	}
	return &pump{file: f, raw: raw, sink: sink, buf: make([]byte, 32<<10)}, nil
}

// run returns when all writers are gone or the file is closed.
func (p *pump) run() {
	for {
		if p.room != nil {
			p.room()
		}
		more := false
		err := p.raw.Read(func(fd uintptr) bool {
			n, err := p.once(fd)
			more = n > 0 || errors.Is(err, unix.EINTR)
			return !errors.Is(err, unix.EAGAIN)
		})
		if err != nil || !more {
			return
		}
	}
}

func (p *pump) once(fd uintptr) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := unix.Read(int(fd), p.buf)
	if n > 0 {
		p.sink(p.buf[:n])
	}
	return n, err
}

// drain takes out what is there now.
func (p *pump) drain() {
	// A file that was closed has nothing left to take out.
	_ = p.raw.Control(func(fd uintptr) {
		for {
			if n, err := p.once(fd); n <= 0 && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
}
