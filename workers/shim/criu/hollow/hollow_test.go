package hollow

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func image(messages ...[]byte) []byte {
	img := []byte("magic 12")
	for _, m := range messages {
		img = append(img, framed(m)...)
	}
	return img
}

func TestPagemap(t *testing.T) {
	in := image(number(nil, 1, 300), number(number(nil, 1, 0x1000), 2, 7))
	out, pages, err := Pagemap(in, []Range{{0x7000, 0x9000}})
	if err != nil || pages != 300 {
		t.Fatalf("pages %d, %v", pages, err)
	}
	want := image(number(nil, 1, 300), number(number(number(number(nil, 1, 0x7000), 2, 2), 4, pagePresent), 5, 2))
	if !bytes.Equal(out, want) {
		t.Errorf("it is % x, want % x", out, want)
	}
}

func TestGhost(t *testing.T) {
	file := number(nil, 3, 0o100644)
	in := image(file)
	whole := int64(len(in)) + 5000
	out, err := Ghost(append(in, "content"...), whole)
	if want := image(number(number(file, 9, 1), 10, 5000)); err != nil || !bytes.Equal(out, want) {
		t.Errorf("a file is % x, %v; want % x", out, err, want)
	}
	for _, entry := range [][]byte{number(nil, 3, 0o040755), number(number(file, 9, 1), 10, 1<<30)} {
		if out, err := Ghost(append(image(entry), "content"...), whole); err != nil || !bytes.Equal(out, image(entry)) {
			t.Errorf("% x becomes % x, %v", entry, out, err)
		}
	}
}

func TestUnlocked(t *testing.T) {
	mapping := func(m []byte) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, 14<<3|2), uint64(len(m))), m...)
	}
	plain, locked := number(number(nil, 1, 0x1000), 6, 0x22), number(number(nil, 1, 0x2000), 6, 0x2022)
	before, after := number(nil, 1, 7), number(nil, 15, 9)
	in := append(image(slices.Concat(before, mapping(plain), mapping(locked), after)), "more"...)
	want := append(image(slices.Concat(before, mapping(plain), mapping(number(locked, 100, 1)), after)), "more"...)
	if out, err := Unlocked(in); err != nil || !bytes.Equal(out, want) {
		t.Errorf("it is % x, %v; want % x", out, err, want)
	}
}

func TestBound(t *testing.T) {
	socket := func(id uint64, port uint64, words ...uint32) []byte {
		m := number(number(nil, 1, id), 7, port)
		for _, w := range words {
			m = number(m, 11, uint64(w))
		}
		entry := number(number(nil, 1, 2), 2, id)
		entry = append(binary.AppendUvarint(entry, 4<<3|2), byte(len(m)))
		return append(entry, m...)
	}
	word := func(b ...byte) uint32 { return binary.NativeEndian.Uint32(b) }
	img := append(image(number(nil, 2, 7)), framed(socket(8, 80, word(127, 0, 0, 1)))...)
	img = append(img, framed(socket(9, 8080, 0, 0, word(0, 0, 255, 255), word(10, 0, 0, 7)))...)
	for id, want := range map[uint32]string{8: "127.0.0.1:80", 9: "10.0.0.7:8080", 7: "", 10: ""} {
		if at, ok := Bound(img, id); ok != (want != "") || ok && at.String() != want {
			t.Errorf("socket %d is bound to %s, %v; want %q", id, at, ok, want)
		}
	}
	for n := range len(img) {
		if at, ok := Bound(img[:n], 9); ok {
			t.Errorf("of %d bytes: %s", n, at)
		}
	}
}

func TestCutShort(t *testing.T) {
	whole := image(number(number(nil, 3, 0o100644), 1, 300))
	for n := range len(whole) {
		if _, err := Ghost(whole[:n], 1); err == nil {
			t.Errorf("%d bytes are taken for all", n)
		}
		if _, _, err := Pagemap(whole[:n], nil); err == nil {
			t.Errorf("%d bytes are taken for all", n)
		}
		if _, err := Unlocked(whole[:n]); err == nil {
			t.Errorf("%d bytes are taken for all", n)
		}
	}
}

func FuzzImages(f *testing.F) {
	f.Add(image(number(nil, 1, 300)))
	f.Add(image([]byte{1<<3 | 2, 200}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = Pagemap(b, nil)
		_, _ = Bound(b, 1)
		if out, err := Ghost(b, int64(len(b))); err == nil && binary.LittleEndian.Uint32(out[magicSize:]) != uint32(len(out)-magicSize-lengthSize) {
			t.Errorf("% x becomes % x", b, out)
		}
	})
}

// TestArchive has tar unpack what criu would have it unpack.
func TestArchive(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	long := "a-name-that-is-too-long-for-the-header-" + string(bytes.Repeat([]byte("x"), 120))
	for name, size := range map[string]int64{"empty": 0, "small": 1, "large": 9 << 30, "d/" + long: 70000} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Symlink("large", filepath.Join(from, "link")), os.Link(filepath.Join(from, "small"), filepath.Join(from, "small2")),
		unix.Mkfifo(filepath.Join(from, "fifo"), 0o600), unix.Mknod(filepath.Join(from, "socket"), unix.S_IFSOCK|0o600, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := Archive(&b, from); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tar", "--extract", "--gzip", "--no-unquote", "--no-wildcards", "--directory", to)
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	list := func(dir string) string {
		cmd := exec.Command("find", ".", "!", "-name", "socket", "-printf", "%P %y %m %U %G %l %n ", "(", "-type", "d", "-o", "-printf", "%s", ")", "-printf", "\n")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		sorted := exec.Command("sort")
		sorted.Stdin = bytes.NewReader(out)
		out, err = sorted.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if err := os.Chmod(from, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := list(to), list(from); got != want {
		t.Errorf("tar gives\n%s\nwant\n%s", got, want)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(to, "large"), &st); err != nil || st.Blocks > 16 {
		t.Errorf("9 GiB of nothing take %d blocks, %v", st.Blocks, err)
	}
}
