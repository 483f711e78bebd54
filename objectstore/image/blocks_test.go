package image

import (
	"os"
	"syscall"
)

// blocksOf is the disk space that a file takes, in bytes.
func blocksOf(f *fixture, file *os.File) int64 {
	f.Helper()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &st); err != nil {
		f.Fatal(err)
	}
	return st.Blocks * 512
}
