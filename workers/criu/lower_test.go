package criu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/layer/ext4"
	"github.com/diapause/diapause/workers/shim"
)

// knowing is a sink that has the contents of some stamps.
type knowing struct {
	has   map[string]bool
	read  []string
	index []lowerFile
}

func (k *knowing) Add(e image.Entry, content io.Reader) error {
	if content == nil {
		return nil
	}
	b, err := io.ReadAll(content)
	if e.Name == lowerIndex {
		return json.Unmarshal(b, &k.index)
	}
	k.read = append(k.read, e.Name)
	return err
}

func (k *knowing) AddStamped(e image.Entry, stamp string, open func() (io.ReadCloser, error)) error {
	if k.has[stamp] {
		return nil
	}
	k.has[stamp] = true
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	return k.Add(e, f)
}

// ext4Dir gives a directory on a file system that notes each change of a file.
func ext4Dir(t *testing.T) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := ext4.Format(f, 128<<20, time.Now()); err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	if _, err := ext4.Mount(f, at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	return at
}

// TestLowerFilesAreReadOnce adds what a session uses of the root below to two images: the second reads what has
// changed since, what changed a moment ago, and what the root has another file for.
func TestLowerFilesAreReadOnce(t *testing.T) {
	t.Parallel()
	base, elsewhere := ext4Dir(t), t.TempDir()
	content := map[string]string{"old": "settled", "new": "just written", "replaced": "as it was"}
	var files []shim.LowerFile
	for _, name := range []string{"old", "new", "replaced"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(content[name]), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, shim.LowerFile{Path: name, Via: filepath.Join(base, name)})
	}
	files[2].Via = filepath.Join(elsewhere, "replaced")
	if err := os.WriteFile(files[2].Via, []byte(content["replaced"]), 0o644); err != nil {
		t.Fatal(err)
	}
	var d digests
	sink := &knowing{has: map[string]bool{}}
	add := func(now time.Time, files []shim.LowerFile) []string {
		t.Helper()
		sink.read = nil
		root, err := os.OpenRoot(base)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		all := lowerFiles{sink: sink, digests: &d, base: root, now: now}
		for _, f := range files {
			l, err := all.add(f)
			if err != nil {
				t.Fatal(err)
			}
			if want := sha(content[f.Path]); l.Path != f.Path || l.SHA256 != want {
				t.Errorf("it notes %+v, want the digest %s", l, want)
			}
		}
		return sink.read
	}
	later := time.Now().Add(2 * time.Hour)
	if got := add(later, files); !slices.Equal(got, []string{"lower/old", "lower/new", "lower/replaced"}) {
		t.Errorf("the first time it reads %v", got)
	}
	if got := add(later, files); !slices.Equal(got, []string{"lower/replaced"}) {
		t.Errorf("the second time it reads %v", got)
	}
	content["new"] = "JUST written"
	if err := os.WriteFile(filepath.Join(base, "new"), []byte(content["new"]), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := add(time.Now(), files[:2]); !slices.Equal(got, []string{"lower/old", "lower/new"}) {
		t.Errorf("of what changed within the hour it reads %v", got)
	}
	if got := add(later, files[:2]); !slices.Equal(got, []string{"lower/new"}) {
		t.Errorf("of what changed since it reads %v", got)
	}
	if err := d.addLower(t.Context(), sink, files, "/no/such/root"); err != nil || len(sink.index) != 3 {
		t.Errorf("without the root below: %v, an index of %v", err, sink.index)
	}
}

func sha(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
