package shim

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/shim/control"
)

// passingImages makes images whose large ones go over a connection to the test.
func passingImages(t *testing.T) (*images, *control.Conn) {
	t.Helper()
	ours, file, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := control.FromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return newImages(t.TempDir(), ours), theirs
}

func pipes(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestSmallImagesAreKept(t *testing.T) {
	of, _ := passingImages(t)
	r, w := pipes(t)
	if err := (captured{of}).Pipe("core-1.img", r); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "registers"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	of.small.Wait()
	if b, err := os.ReadFile(filepath.Join(of.dir, "core-1.img")); err != nil || string(b) != "registers" || of.err() != nil {
		t.Errorf("it is kept as %q, %v, %v", b, err, of.err())
	}
	if of.passed.Load() != 0 || !of.Has("core-1.img") || of.Has("core-2.img") {
		t.Errorf("passed %d, has %t and %t", of.passed.Load(), of.Has("core-1.img"), of.Has("core-2.img"))
	}
	r, _ = pipes(t)
	if err := (captured{of}).Pipe("core-1.img", r); err == nil {
		t.Error("an image came twice")
	}
}

func TestSmallImagesAreBounded(t *testing.T) {
	of, _ := passingImages(t)
	of.left.Store(1000)
	r, w := pipes(t)
	if err := (captured{of}).Pipe("files.img", r); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.Write(make([]byte, 900)); err != nil {
			if !errors.Is(err, unix.EPIPE) {
				t.Errorf("criu's write fails by %v", err)
			}
			break
		}
	}
	of.small.Wait()
	if err := of.err(); err == nil || !strings.Contains(err.Error(), "files.img") || !strings.Contains(err.Error(), "MiB of memory") {
		t.Errorf("too much is told as %v", err)
	}
}

func TestLargeImagesArePassed(t *testing.T) {
	of, worker := passingImages(t)
	r, w := pipes(t)
	if err := (captured{of}).Pipe("pages-1.img", r); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "page"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var m Message
	files, err := worker.Receive(&m)
	if err != nil || m.Phase != PhasePages || m.Name != "pages-1.img" || len(files) != 1 {
		t.Fatalf("the worker gets %+v, %d files, %v", m, len(files), err)
	}
	defer files[0].Close()
	if b, err := io.ReadAll(files[0]); err != nil || string(b) != "page" {
		t.Errorf("the worker reads %q, %v", b, err)
	}
	// A worker that is gone breaks the pipe.
	worker.Close()
	r, w = pipes(t)
	if err := (captured{of}).Pipe("pages-2.img", r); err == nil {
		t.Error("a worker that is gone takes an image")
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("criu writes on: %v", err)
	}
}

func TestImagesAreServed(t *testing.T) {
	of, worker := passingImages(t)
	of.served = []string{"pages-1.img"}
	if err := os.WriteFile(filepath.Join(of.dir, "core-1.img"), []byte("registers"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"pages-1.img": true, "pages-2.img": false, "core-1.img": true, "core-2.img": false} {
		if of.Has(name) != want {
			t.Errorf("Has(%s) is %t", name, !want)
		}
	}
	for range 2 { // criu may ask again
		r, w := pipes(t)
		if err := (restored{of}).Pipe("core-1.img", w); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || string(b) != "registers" {
			t.Errorf("criu reads %q, %v", b, err)
		}
	}
	_, w := pipes(t)
	if err := (restored{of}).Pipe("pages-1.img", w); err != nil {
		t.Fatal(err)
	}
	var m Message
	files, err := worker.Receive(&m)
	if err != nil || m.Name != "pages-1.img" || len(files) != 1 {
		t.Fatalf("the worker gets %+v, %d files, %v", m, len(files), err)
	}
	files[0].Close()
	of.small.Wait()
}
