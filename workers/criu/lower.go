package criu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/hide"
	"github.com/diapause/diapause/workers/layer"
	"github.com/diapause/diapause/workers/shim"
)

// lowerFile is one line of the index of lower files: what the session was using
// below its own layer, so that a host can tell whether it has the same.
type lowerFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"` // of a file
	Dir    bool   `json:"dir,omitempty"`
}

// lowerFiles adds the files of the layers below that a session uses to an image. What the image before has of them isn't
// read again.
type lowerFiles struct {
	sink    driver.Sink
	digests *digests
	base    *os.Root // the lowest layer; nil if it isn't known
	now     time.Time
}

// addLower adds the files below that are in use, with an index of them. base is where the lowest layer is.
func (d *digests) addLower(ctx context.Context, sink driver.Sink, files []shim.LowerFile, base string) error {
	all := lowerFiles{sink: sink, digests: d, now: time.Now()}
	if root, err := os.OpenRoot(base); err == nil { // else all are read
		defer root.Close()
		all.base = root
	}
	var index []lowerFile
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		l, err := all.add(f)
		if err != nil {
			return fmt.Errorf("add /%s to the image: %w", f.Path, err)
		}
		index = append(index, l)
	}
	b, err := json.Marshal(index)
	if err != nil {
		return fmt.Errorf("encode the index of lower files: %w", err)
	}
	return addBytes(sink, lowerIndex, b)
}

func (a *lowerFiles) add(l shim.LowerFile) (lowerFile, error) {
	var st unix.Stat_t
	if err := unix.Stat(l.Via, &st); err != nil {
		return lowerFile{}, err
	}
	e := layer.EntryOf(path.Join(partLower, l.Path), &st)
	if l.Dir {
		e.Type = image.TypeDir
		return lowerFile{Path: l.Path, Dir: true}, a.sink.Add(e, nil)
	}
	e.Type, e.Size = image.TypeFile, st.Size
	sink, stamped := a.sink.(layer.Stamped)
	stamp, digest, err := a.known(l, &st)
	if err != nil {
		return lowerFile{}, err
	}
	if stamped && stamp != "" {
		err := sink.AddStamped(e, stamp, func() (io.ReadCloser, error) { return os.Open(l.Via) })
		return lowerFile{Path: l.Path, SHA256: digest}, err
	}
	f, err := os.Open(l.Via)
	if err != nil {
		return lowerFile{}, err
	}
	defer f.Close()
	sum := sha256.New()
	if err := a.sink.Add(e, io.TeeReader(io.LimitReader(f, st.Size), sum)); err != nil {
		return lowerFile{}, err
	}
	return lowerFile{Path: l.Path, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// known gives the stamp and the digest of a file that is the lowest layer's and hasn't changed for long;
// "" of any other.
func (a *lowerFiles) known(l shim.LowerFile, used *unix.Stat_t) (stamp, digest string, err error) {
	if a.base == nil {
		return "", "", nil
	}
	f, err := openBelow(a.base, l.Path)
	if err != nil { // it has been removed, or replaced by something else
		return "", "", nil
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", "", err
	}
	// The overlay puts the layer's number into the upper bits of an inode number.
	if st.Mode != used.Mode || st.Size != used.Size || uint32(st.Ino) != uint32(used.Ino) || st.Mtim != used.Mtim || st.Ctim != used.Ctim {
		return "", "", nil
	}
	if stamp, err = layer.SettledStamp(f, a.now); err != nil || stamp == "" {
		return "", "", err
	}
	digest, err = a.digests.of(f)
	return stamp, digest, err
}

// digests remember what files of the host's hash to, as long as they don't
// change.
type digests struct {
	mu    sync.Mutex
	known map[fileVersion]string
}

type fileVersion struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// maxDigests bounds the memory; beyond it all are forgotten.
const maxDigests = 20000

// of returns the digest of an open file.
func (d *digests) of(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	v := fileVersion{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
	d.mu.Lock()
	sum, ok := d.known[v]
	d.mu.Unlock()
	if ok {
		return sum, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	sum = hex.EncodeToString(h.Sum(nil))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDigests {
		d.known = make(map[fileVersion]string)
	}
	d.known[v] = sum
	return sum, nil
}

// lowerRoot is the root below a session, and what of it the session doesn't see.
type lowerRoot struct {
	path   string
	hidden []hide.Path
}

// fillMiddle makes in the middle layer what the root below the session doesn't have as the
// session knew it.
func (d *digests) fillMiddle(ctx context.Context, source driver.Source, below lowerRoot, middle *layer.Extraction) error {
	index, err := readLowerIndex(source)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(below.path)
	if err != nil {
		return fmt.Errorf("open the root below the session: %w", err)
	}
	defer root.Close()
	entries := make(map[string]image.Entry)
	for _, e := range source.Entries() {
		if part(e.Name) == partLower {
			entries[e.Name] = e
		}
	}
	for _, l := range index {
		if err := ctx.Err(); err != nil {
			return err
		}
		// What is hidden now isn't there for the session, even if the host has it as it was.
		if !hide.Covers(below.hidden, l.Path) {
			same, err := d.sameBelow(root, l)
			if err != nil {
				return fmt.Errorf("compare /%s with the host's: %w", l.Path, err)
			}
			if same {
				continue
			}
		}
		e, ok := entries[path.Join(partLower, l.Path)]
		if !ok {
			return fmt.Errorf("the image lacks /%s, which its index names", l.Path)
		}
		if err := middle.Extract(e); err != nil {
			return fmt.Errorf("bring back /%s: %w", l.Path, err)
		}
	}
	return nil
}

func readLowerIndex(source driver.Source) ([]lowerFile, error) {
	r, err := openAlone(source, lowerIndex)
	if err != nil {
		return nil, fmt.Errorf("read the image's index of lower files: %w", err)
	}
	defer r.Close()
	var index []lowerFile
	if err := json.NewDecoder(r).Decode(&index); err != nil {
		return nil, fmt.Errorf("read the image's index of lower files: %w", err)
	}
	return index, nil
}

// openAlone opens a file of an image of which the neighbours aren't read now.
func openAlone(source driver.Source, name string) (io.ReadCloser, error) {
	random, ok := source.(driver.RandomReader)
	if !ok {
		return source.Open(name)
	}
	at, size, err := random.ReaderAt(name)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(at, 0, size)), nil
}

// sameBelow reports whether the root below has the file as it was.
func (d *digests) sameBelow(root *os.Root, l lowerFile) (bool, error) {
	fd, err := openBelow(root, l.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer fd.Close()
	st, err := fd.Stat()
	if err != nil {
		return false, err
	}
	if l.Dir || !st.Mode().IsRegular() {
		return l.Dir && st.IsDir(), nil
	}
	sum, err := d.of(fd)
	return sum == l.SHA256, err
}

// openBelow opens a file by the path that the kernel gave for it, in which no
// element is a symlink.
func openBelow(root *os.Root, name string) (*os.File, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return layer.Beneath(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
}

func part(name string) string {
	for i := range len(name) {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return name
}
