package ext4

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// later is a time at which all of a test's files have been left alone for long.
func later() time.Time { return time.Now().Add(time.Hour) }

// ticked waits until the clock of file times is past all that a file may have now, as it is between two
// captures: some have a finer time than that clock's, and a later one.
func ticked() error {
	for began := time.Now(); ; {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil || now.Nano() > began.UnixNano() {
			return err
		}
	}
}

// seen has what the parts of a file system were under each of their stamps.
type seen map[string][sha256.Size]byte

// look returns the stamps of a file system by the numbers of their parts. It is an error if a part
// has none, or other content under one that it had before.
func (k seen) look(f *os.File) (map[int64]string, error) {
	s, err := Open(f)
	if err != nil {
		return nil, err
	}
	m, parts, err := s.Parts(later())
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		sum := sha256.New()
		if n, err := io.Copy(sum, p.Open()); err != nil || n != p.Bytes {
			return nil, fmt.Errorf("part %d has %d bytes instead of %d, %w", p.Number, n, p.Bytes, err)
		}
		if p.Stamp == "" {
			return nil, fmt.Errorf("part %d has no stamp", p.Number)
		}
		was, known := k[p.Stamp]
		if k[p.Stamp] = [sha256.Size]byte(sum.Sum(nil)); known && k[p.Stamp] != was {
			return nil, fmt.Errorf("part %d has another content under its stamp", p.Number)
		}
	}
	return m.Stamps, nil
}

// step does one thing with a few files below dir, at random. mapped is a mapping of one of them.
func step(r *rand.Rand, dir string, mapped []byte) (what string, err error) {
	name := func() string { return filepath.Join(dir, fmt.Sprintf("f%d", r.IntN(12))) }
	path := name()
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	write := func(flags int, at int64, b []byte) error {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|flags, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(b, at)
		return errors.Join(err, f.Close())
	}
	allocate := func(mode uint32, at, n int64) error {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err = unix.Fallocate(int(f.Fd()), mode, at, n); errors.Is(err, unix.EINVAL) {
			err = nil // beyond its end
		}
		return errors.Join(err, f.Close())
	}
	there := func(err error) error {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"over the beginning of", func() error { return write(0, 0, random(1+r.IntN(9000))) }},
		{"into the middle of", func() error { return write(0, r.Int64N(3<<20), random(1+r.IntN(9000))) }},
		{"into a new, large", func() error { return write(os.O_TRUNC, 0, random(1<<20+r.IntN(1<<20))) }},
		{"by the mapping, not", func() error { copy(mapped[r.IntN(len(mapped)-200):], random(200)); return nil }},
		{"without the page cache into", func() error {
			b := random(3 * BlockSize)
			aligned := b[BlockSize-int(uintptr(unsafe.Pointer(&b[0]))%BlockSize):][:BlockSize]
			return write(unix.O_DIRECT, BlockSize*r.Int64N(500), aligned)
		}},
		{"room for", func() error { return allocate(0, r.Int64N(2<<20), 1<<20) }},
		{"a hole in", func() error {
			return allocate(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, r.Int64N(2<<20), 1<<16)
		}},
		{"less of", func() error { return allocate(unix.FALLOC_FL_COLLAPSE_RANGE, BlockSize*r.Int64N(20), 4*BlockSize) }},
		{"the end of", func() error { return there(os.Truncate(path, r.Int64N(2<<20))) }},
		{"another name for", func() error { return there(os.Rename(path, name())) }},
		{"one more name for", func() error { return there(os.Link(path, name())) }},
		{"the end for", func() error { return there(os.Remove(path)) }},
		{"a long attribute of", func() error { return there(unix.Setxattr(path, "user.long", random(20000), 0)) }},
		{"no time of", func() error { return there(os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))) }},
		{"directories, not", func() error {
			return os.MkdirAll(filepath.Join(dir, fmt.Sprint(r.IntN(9)), fmt.Sprint(r.IntN(99))), 0o700)
		}},
	}
	chosen := steps[r.IntN(len(steps))]
	return chosen.what + " " + filepath.Base(path), chosen.do()
}

// TestStampsProveContent: after anything done with files, a part has another stamp if it has another
// content, in this mount or the next.
func TestStampsProveContent(t *testing.T) {
	const mounts, steps = 6, 25
	for seed := range uint64(3) {
		f, known, r := formatted(t, 1<<30), seen{}, rand.New(rand.NewPCG(seed, 0))
		for range mounts {
			mounted(t, f, func(dir string) error {
				shared, err := os.OpenFile(filepath.Join(dir, "mapped"), os.O_RDWR|os.O_CREATE, 0o600)
				if err != nil {
					return err
				}
				defer shared.Close()
				if err := shared.Truncate(1 << 20); err != nil {
					return err
				}
				mapped, err := unix.Mmap(int(shared.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
				if err != nil {
					return err
				}
				defer unix.Munmap(mapped)
				for range steps {
					what, err := step(r, dir, mapped)
					if err = errors.Join(err, synced(dir), ticked()); err == nil {
						_, err = known.look(f)
					}
					if err != nil {
						return fmt.Errorf("with seed %d, after writing %s: %w", seed, what, err)
					}
				}
				return nil
			})
		}
	}
}

// TestStampsStay: what was left alone keeps its stamp, though its neighbours change and it is read,
// in this mount and the next and in a copy.
func TestStampsStay(t *testing.T) {
	const number, size = 8, 8 << 20
	f, known := formatted(t, 1<<30), seen{}
	name := func(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("f%d", i)) }
	var before, after map[int64]string
	mounted(t, f, func(dir string) error {
		for i := range number {
			if err := os.WriteFile(name(dir, i), slices.Repeat([]byte{1, 2, byte(i)}, size/3), 0o600); err != nil {
				return err
			}
		}
		if err := errors.Join(synced(dir), ticked()); err != nil {
			return err
		}
		var err error
		before, err = known.look(f)
		return err
	})
	cut := copied(t, f)
	for _, f := range []*os.File{f, cut} {
		mounted(t, f, func(dir string) error {
			one, err := os.OpenFile(name(dir, 3), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = one.WriteAt([]byte{9}, 5<<20)
			_, readErr := os.ReadFile(name(dir, 4))
			if err := errors.Join(err, readErr, one.Close(), synced(dir), ticked()); err != nil {
				return err
			}
			after, err = known.look(f)
			return err
		})
		stayed := 0
		for number, stamp := range before {
			if after[number] == stamp {
				stayed++
			}
		}
		// Of the changed file are three parts at most, two are neighbours' beside it, and one has the inodes.
		if parts := len(before); parts < number*size/(partBlocks*BlockSize) || stayed < parts-6 {
			t.Errorf("%d of %d parts keep their stamps", stayed, parts)
		}
	}
}

// TestStampsOfWhatJustChanged: a file that was changed this moment has no stamp.
func TestStampsOfWhatJustChanged(t *testing.T) {
	f := formatted(t, 1<<30)
	mounted(t, f, func(dir string) error {
		path := filepath.Join(dir, "f")
		err := errors.Join(os.WriteFile(path, make([]byte, 100), 0o600), os.WriteFile(path, []byte("content"), 0o600), synced(dir))
		if err != nil {
			return err
		}
		s, err := Open(f)
		if err != nil {
			return err
		}
		for _, c := range []struct {
			now     time.Time
			without int
		}{{time.Now(), 1}, {later(), 0}, {time.Now().Add(-time.Hour), 1}} {
			m, parts, err := s.Parts(c.now)
			if err != nil {
				return err
			}
			if n := len(parts) - len(m.Stamps); n != c.without {
				t.Errorf("at %v %d of %d parts have no stamp, want %d", c.now, n, len(parts), c.without)
			}
		}
		return nil
	})
}

// TestBadMaps: a map that can't be one is refused before anything is written.
func TestBadMaps(t *testing.T) {
	for name, m := range map[string]Map{
		"no size":       {Extents: []Extent{{0, 1}}},
		"beyond it":     {Size: 10 * BlockSize, Extents: []Extent{{9, 2}}},
		"no blocks":     {Size: 10 * BlockSize, Extents: []Extent{{1, 0}}},
		"back":          {Size: 10 * BlockSize, Extents: []Extent{{3, 1}, {2, 1}}},
		"too large":     {Size: Largest + BlockSize},
		"tiny parts":    {Size: 10 * BlockSize, Part: 1},
		"negative ones": {Size: 10 * BlockSize, Part: -1024},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "layer"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := NewFiller(f, m); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if st, err := f.Stat(); err != nil || st.Size() != 0 {
			t.Errorf("%s: %d bytes were written, %v", name, st.Size(), err)
		}
	}
}

// TestDamagedExtents: a file whose extents make no sense, or that another file has too, is of no
// file: its content counts.
func TestDamagedExtents(t *testing.T) {
	f := formatted(t, 1<<30)
	mounted(t, f, func(dir string) error {
		for i := range 2 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 3*BlockSize), 0o600); err != nil {
				return err
			}
		}
		return synced(dir)
	})
	s, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := s.files(later())
	if err != nil || len(whole.runs) != 2 {
		t.Fatalf("there are %d runs, %v", len(whole.runs), err)
	}
	at := func(file uint32) int64 { return s.groups[0].table*BlockSize + int64(file-1)*inodeSize }
	inode := make([]byte, inodeSize)
	if _, err := f.ReadAt(inode, at(whole.runs[0].file)); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(b []byte){
		"no magic":    func(b []byte) { b[inodeExtents] ^= 1 },
		"entries":     func(b []byte) { b[inodeExtents+2] = 200 },
		"deep":        func(b []byte) { b[inodeExtents+6] = 7 },
		"a cycle":     func(b []byte) { b[inodeExtents+6] = 1 },
		"far away":    func(b []byte) { le.PutUint32(b[inodeExtents+extentSize+8:], 1<<31) },
		"no length":   func(b []byte) { b[inodeExtents+extentSize+4] = 0 },
		"overlapping": func(b []byte) { le.PutUint32(b[inodeExtents+extentSize+8:], uint32(whole.runs[1].first+1)) },
	} {
		broken := slices.Clone(inode)
		damage(broken)
		if _, err := f.WriteAt(broken, at(whole.runs[0].file)); err != nil {
			t.Fatal(err)
		}
		want := 1
		if name == "overlapping" {
			want = 0
		}
		if found, err := s.files(later()); err != nil || len(found.runs) != want {
			t.Errorf("%s: there are %d runs, want %d, %v", name, len(found.runs), want, err)
		}
	}
}
