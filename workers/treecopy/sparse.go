package treecopy

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// maxHoles is how much of a file may be holes, in bytes: a tar stream has zeros in their place,
// and a file may say to be larger than any disk.
const maxHoles = 1 << 30

// SparseError refuses to send a file of which nearly nothing is there.
type SparseError struct {
	Name string
	Size int64 // as it says
}

func (e *SparseError) Error() string {
	return fmt.Sprintf("%s says to have %s, of which more than %s are holes; pack it with its holes inside: `diapause exec NAME tar -cSf - PATH`",
		e.Name, schemas.Bytes(e.Size), schemas.Bytes(maxHoles))
}

// checkHoles gives a SparseError if too much of a file are holes.
func checkHoles(f *os.File, name string, st *unix.Stat_t) error {
	const block = 512
	if st.Size-st.Blocks*block <= maxHoles {
		return nil
	}
	// Compressed by the file system, a file takes less than it has.
	holes, fd := int64(0), int(f.Fd())
	for at := int64(0); at < st.Size; {
		data, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // none is left
			data, err = st.Size, nil
		}
		if err != nil {
			return fmt.Errorf("look for holes in %s: %w", name, err)
		}
		if holes += data - at; holes > maxHoles {
			return &SparseError{Name: name, Size: st.Size}
		}
		if data >= st.Size {
			break
		}
		if at, err = unix.Seek(fd, data, unix.SEEK_HOLE); err != nil {
			return fmt.Errorf("look for holes in %s: %w", name, err)
		}
	}
	_, err := unix.Seek(fd, 0, unix.SEEK_SET)
	return err
}
