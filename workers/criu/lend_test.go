package criu

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lendingPipe is a pipe as giveImage has it, with its reader's end.
func lendingPipe(t *testing.T, size int64) (*lender, *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	read := os.NewFile(uintptr(fds[0]), "read")
	write, err := waitable(os.NewFile(uintptr(fds[1]), "write"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	l, err := newLender(write, size)
	if err != nil {
		t.Fatal(err)
	}
	return l, read
}

// mapped is memory that a pipe may refer to.
func mapped(t *testing.T, size int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

// TestLentPages has a reader that is in the way all the time: what it reads is what was lent,
// though each buffer is written over as soon as it is given back.
func TestLentPages(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 4096, 1 << 20, 1<<20 + 1, 24<<20 + 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			want := make([]byte, size)
			rand.Read(want)
			l, read := lendingPipe(t, int64(size))
			var out bytes.Buffer
			read2 := exec.Command("dd", "bs=300000", "status=none") // another process, as criu is
			read2.Stdin, read2.Stdout = read, &out
			if err := read2.Start(); err != nil {
				t.Fatal(err)
			}
			read.Close()
			var free [][]byte
			lent := 0
			for at, n := 0, 0; at < size; at += n {
				n = min(size-at, 256<<10)
				if n > 100<<10 && at%3 == 0 {
					n = 100 << 10 // not all pieces are of one size
				}
				if len(free) == 0 {
					free = append(free, mapped(t, 256<<10))
					lent++
				}
				buf := free[len(free)-1]
				free = free[:len(free)-1]
				copy(buf, want[at:at+n])
				m, err := l.Borrow(buf[:n], func(inUse bool) {
					if inUse {
						t.Error("a buffer is in use though all was read")
					}
					rand.Read(buf)
					free = append(free, buf)
				})
				if m != n || err != nil {
					t.Fatalf("Borrow gives %d of %d, %v", m, n, err)
				}
			}
			if len(l.loans) != 0 {
				t.Errorf("%d buffers are lent though the image is written", len(l.loans))
			}
			l.end()
			l.pipe.Close()
			if err := read2.Wait(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Error("what was read isn't what was lent")
			}
			if most := 2*int(l.room)/(100<<10) + 2; lent > most {
				t.Errorf("it took %d buffers, want at most %d", lent, most)
			}
		})
	}
}

// TestLentWithoutReader has readers that end, or never read: Borrow returns, and each buffer is
// given back once.
func TestLentWithoutReader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop  func(l *lender, read *os.File)
		want  error
		inUse bool
	}{
		"the reader ends": {func(_ *lender, read *os.File) { read.Close() }, syscall.EPIPE, false},
		"it is cancelled": {func(l *lender, _ *os.File) { _ = l.pipe.SetWriteDeadline(time.Now()) }, os.ErrDeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, read := lendingPipe(t, 64<<20)
			given := make(map[int]int)
			var err error
			for i := 0; err == nil && i < 100; i++ {
				if i == 2 {
					go c.stop(l, read)
				}
				_, err = l.Borrow(mapped(t, 512<<10), func(inUse bool) {
					given[i]++
					if inUse != c.inUse {
						t.Errorf("buffer %d is in use: %v", i, inUse)
					}
				})
			}
			if !errors.Is(err, c.want) || !errors.Is(l.err, c.want) {
				t.Errorf("Borrow gives %v, and it noted %v", err, l.err)
			}
			l.end()
			l.end()
			if len(given) < 3 {
				t.Errorf("%d buffers were given back", len(given))
			}
			for i, n := range given {
				if n != 1 {
					t.Errorf("buffer %d was given back %d times", i, n)
				}
			}
		})
	}
}
