package hollow

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Archive writes what criu has tar write of a memory file system, with files of the same
// sizes that hold nothing. Sockets are left out, as tar does.
func Archive(to io.Writer, dir string) error {
	// Not compressed, criu reads it without tar: what is in it is small.
	packed, err := gzip.NewWriterLevel(to, gzip.NoCompression)
	if err != nil {
		return err
	}
	a := archive{to: packed, links: map[[2]uint64]string{}}
	var top unix.Stat_t
	if err := unix.Lstat(dir, &top); err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			err = a.add(path, name, st)
		}
		if err == nil && d.IsDir() && st.Dev != top.Dev { // another file system is mounted there
			err = fs.SkipDir
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	if _, err := packed.Write(make([]byte, 2*block)); err != nil { // the end
		return err
	}
	return packed.Close()
}

// block is the unit of an archive, in bytes.
const block = 512

type archive struct {
	to    io.Writer
	links map[[2]uint64]string
}

func (a *archive) add(path, name string, st unix.Stat_t) error {
	h := &tar.Header{Name: name, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), Format: tar.FormatGNU}
	key := [2]uint64{st.Dev, st.Ino}
	size := int64(-1)
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFSOCK:
		return nil
	case kind == unix.S_IFDIR:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case a.links[key] != "":
		h.Typeflag, h.Linkname = tar.TypeLink, a.links[key]
	case kind == unix.S_IFLNK:
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, to
	case kind == unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case kind == unix.S_IFCHR, kind == unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if kind == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	default:
		h.Typeflag, size = tar.TypeReg, st.Size
	}
	if st.Nlink > 1 && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeLink {
		a.links[key] = name
	}
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(h); err != nil {
		return err
	}
	if size > 0 {
		sparse(b.Bytes()[b.Len()-block:], size)
	}
	_, err := a.to.Write(b.Bytes())
	return err
}

// sparse makes the header of an empty file that of a file of size bytes that is one hole, as
// GNU tar writes it.
func sparse(header []byte, size int64) {
	header[156] = 'S'
	number := func(at int, v int64) {
		digits := strconv.FormatInt(v, 8)
		if len(digits) < 12 {
			copy(header[at:at+12], fmt.Sprintf("%011s\x00", digits))
			return
		}
		header[at] = 0x80
		for i := 11; i > 3; i, v = i-1, v>>8 {
			header[at+i] = byte(v)
		}
	}
	number(386, size) // one part without a byte, at the end
	number(398, 0)
	number(483, size)
	sum := 0
	copy(header[148:156], "        ")
	for _, c := range header {
		sum += int(c)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
}
