package criu

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lender writes an image into criu's pipe. What it borrows the pipe refers to, and criu
// copies it from there to where it belongs: the only copy that is made of a page.
//
// A pipe has what was written last, and no more than it has room for. So what was written
// before that has left the pipe. The last bytes of an image are copied into the pipe, so that
// nothing is lent any more when the image is written.
type lender struct {
	pipe *os.File
	raw  syscall.RawConn
	room int64 // bytes that the pipe holds at most
	size int64 // bytes of the image; 0 lends nothing

	written int64
	loans   []loan
	err     error // of the pipe
}

// loan is what the pipe may refer to.
type loan struct {
	end  int64 // bytes that were written when it was
	done func(inUse bool)
}

func newLender(pipe *os.File, size int64) (*lender, error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("open criu's pipe: %w", err)
	}
	l := &lender{pipe: pipe, raw: raw, size: size}
	var room int
	if controlErr := raw.Control(func(fd uintptr) { room, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); controlErr != nil || err != nil {
		return nil, fmt.Errorf("open criu's pipe: %w", errors.Join(controlErr, err))
	}
	l.room = int64(room)
	return l, nil
}

// Write implements io.Writer.
func (l *lender) Write(b []byte) (n int, err error) {
	n, l.err = l.pipe.Write(b)
	l.passed(n)
	return n, l.err
}

// Borrow implements image.Borrower.
func (l *lender) Borrow(data []byte, done func(inUse bool)) (n int, err error) {
	if l.written+int64(len(data))+l.room > l.size {
		n, err = l.Write(data)
		done(false)
		return n, err
	}
	for n < len(data) && l.err == nil {
		var m int
		if m, l.err = l.refer(data[n:]); l.err == nil {
			n += m
			l.passed(m)
		}
	}
	l.loans = append(l.loans, loan{l.written, done})
	return n, l.err
}

// refer has the pipe refer to what it has room for, when that is more than nothing.
func (l *lender) refer(data []byte) (n int, err error) {
	v := unix.Iovec{Base: unsafe.SliceData(data)}
	v.SetLen(len(data))
	waitErr := l.raw.Write(func(fd uintptr) bool {
		n, err = unix.Vmsplice(int(fd), []unix.Iovec{v}, unix.SPLICE_F_NONBLOCK)
		for err == unix.EINTR {
			n, err = unix.Vmsplice(int(fd), []unix.Iovec{v}, unix.SPLICE_F_NONBLOCK)
		}
		return err != unix.EAGAIN
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, fmt.Errorf("write to criu's pipe: %w", err)
	}
	return n, nil
}

// passed counts what was written, and ends the loans of what has left the pipe.
func (l *lender) passed(n int) {
	l.written += int64(n)
	for len(l.loans) > 0 && l.loans[0].end <= l.written-l.room {
		l.loans[0].done(false)
		l.loans = l.loans[1:]
	}
}

// end ends all loans. Where the pipe still has a reader, what it refers to stays.
func (l *lender) end() {
	for _, o := range l.loans {
		o.done(!errors.Is(l.err, unix.EPIPE))
	}
	l.loans = nil
}
