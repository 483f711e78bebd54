package treecopy

import (
	"archive/tar"
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/attach"
)

func open(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
}

// get asks for a path below root, as a client does.
func get(t *testing.T, root *os.File, name string) ([]byte, error) {
	t.Helper()
	client, server := net.Pipe()
	go serve(server, func() error { return Send(server, root, name) })
	var stream bytes.Buffer
	_, err := attach.Do(client, attach.Request{Op: attach.OpGet, Path: name}, attach.Streams{Stdout: &stream})
	return stream.Bytes(), err
}

// put sends a tar stream to a path below root, as a client does.
func put(t *testing.T, root *os.File, name string, stream []byte) error {
	t.Helper()
	client, server := net.Pipe()
	go serve(server, func() error { return Receive(server, root, name) })
	_, err := attach.Do(client, attach.Request{Op: attach.OpPut, Path: name}, attach.Streams{Stdin: bytes.NewReader(stream)})
	return err
}

func serve(c net.Conn, do func() error) {
	defer c.Close()
	if _, err := attach.ReadRequest(c); err != nil {
		return
	}
	if err := do(); err != nil {
		_ = attach.WriteError(c, err.Error())
	}
}

func TestTreeThereAndBack(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	large := strings.Repeat("0123456789", attach.MaxFrame/4)
	write(t, filepath.Join(from, "tree", "a"), "first")
	write(t, filepath.Join(from, "tree", "below", "b"), large)
	if err := os.Symlink("below/b", filepath.Join(from, "tree", "link")); err != nil {
		t.Fatal(err)
	}
	stream, err := get(t, open(t, from), "/tree")
	if err != nil {
		t.Fatal(err)
	}
	for name, below := range map[string]string{"/": "tree", "/other": "other"} {
		if err := put(t, open(t, to), name, stream); err != nil {
			t.Fatalf("to %s: %v", name, err)
		}
		a, errA := os.ReadFile(filepath.Join(to, below, "a"))
		b, errB := os.ReadFile(filepath.Join(to, below, "link"))
		if string(a) != "first" || string(b) != large || errA != nil || errB != nil {
			t.Errorf("to %s: %q, %v; %d bytes, %v", name, a, errA, len(b), errB)
		}
	}
	if st, err := os.Stat(filepath.Join(to, "tree", "a")); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", st.Mode(), err)
	}
}

// No symlink below root leads out of it, in either direction.
func TestSymlinksStayInside(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	if err := os.Symlink(outside, filepath.Join(inside, "out")); err != nil {
		t.Fatal(err)
	}
	root := open(t, inside)
	if stream, err := get(t, root, "/out/secret"); err == nil {
		t.Errorf("it gives %q", stream)
	}
	if err := put(t, root, "/out/new", archive(t, "new", tar.TypeReg, "x")); err == nil {
		t.Error("it writes through a symlink")
	}
	if err := put(t, root, "/", archive(t, "../../up", tar.TypeReg, "x")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(inside, "up")); err != nil || string(got) != "x" {
		t.Errorf("a name with .. becomes %q, %v", got, err)
	}
	if err := put(t, root, "/", archive(t, "device", tar.TypeChar, "")); err == nil {
		t.Error("it makes a device")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("outside there is %v, %v", left, err)
	}
}

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	root := open(t, dir)
	for _, content := range []string{"one", "two"} {
		if err := ReplaceFile(root, "/file", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := ReplaceFile(root, "/no/dir/file", nil); err == nil {
		t.Error("it replaces a file in no directory")
	}
}

func archive(t *testing.T, name string, kind byte, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Mode: 0o644, Size: int64(len(content)), Uid: os.Getuid(), Gid: os.Getgid()}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
