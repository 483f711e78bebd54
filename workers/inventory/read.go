package inventory

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// reader reads a file below /proc/PID; empty if it isn't there, as on older kernels. All files
// that a look reads are read by one.
type reader func(pid int, name string) string

// readSize is more than most files of /proc hold, in bytes.
const readSize = 64 << 10

// newReader makes one that keeps its buffer. It is for one goroutine. os.ReadFile makes twice as
// many system calls.
func newReader() reader {
	buf := make([]byte, readSize)
	return func(pid int, name string) string {
		fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return ""
		}
		defer unix.Close(fd)
		n := 0
		for {
			if n == len(buf) {
				buf = append(buf, make([]byte, len(buf))...)
			}
			more, err := unix.Read(fd, buf[n:])
			switch {
			case err == unix.EINTR:
			case err != nil || more == 0:
				return string(buf[:n])
			default:
				n += more
			}
		}
	}
}
