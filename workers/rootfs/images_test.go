package rootfs

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/diapause/diapause/schemas"
)

// made is when all files of the tests' images were.
var made = time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)

// file is an entry of a layer.
type file struct {
	tar.Header
	content string
}

func regular(name, content string) file {
	return file{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: made}, content}
}

func directory(name string) file {
	return file{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: made}, ""}
}

func link(kind byte, name, to string) file {
	return file{tar.Header{Typeflag: kind, Name: name, Linkname: to, Mode: 0o777, ModTime: made}, ""}
}

func (f file) with(change func(*tar.Header)) file {
	change(&f.Header)
	return f
}

// archive is an uncompressed layer.
func archive(t *testing.T, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := w.WriteHeader(&f.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// layerOf is a compressed layer.
func layerOf(t *testing.T, files ...file) v1.Layer {
	t.Helper()
	b := archive(t, files...)
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// imageOf is an image of layers, for this machine.
func imageOf(t *testing.T, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err == nil {
		img, err = mutate.ConfigFile(img, configFile(t, img, config, runtime.GOARCH))
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func configFile(t *testing.T, img v1.Image, config v1.Config, arch string) *v1.ConfigFile {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.Config, c.OS, c.Architecture = config, "linux", arch
	return c
}

// served is a registry of the test.
type served struct {
	host  string
	blobs map[string]int // how often the content at a path was given
	wrong map[string]int // answers in the place of those at a path
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{blobs: map[string]int{}, wrong: map[string]int{}}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	asked := make(chan *http.Request)
	answered := make(chan int)
	go func() {
		for r := range asked {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				s.blobs[filepath.Base(r.URL.Path)]++
			}
			answered <- s.wrong[r.URL.Path]
		}
	}()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		if status := <-answered; status != 0 {
			w.WriteHeader(status)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *served) push(t *testing.T, as string, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(s.host + "/" + as)
	if err == nil {
		err = remote.Write(ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ref.String()
}

func digestOf(t *testing.T, img v1.Image) string {
	t.Helper()
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func user(uid string) User {
	return User{UID: schemas.UID(uid), Name: schemas.Name{Tenant: "default", Session: schemas.SessionID(uid)}, Epoch: 1}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func store(t *testing.T) *Store { return open(t, filepath.Join(t.TempDir(), "roots")) }

// run runs a program, and gives what it prints.
func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return string(out)
}

// empties fails the test if a store has any root, or anything of one.
func empties(t *testing.T, s *Store) {
	t.Helper()
	for _, pattern := range []string{"sha256-*", "new-*", "old-*", "users/*"} {
		names, err := filepath.Glob(filepath.Join(s.dir, pattern))
		if err != nil || len(names) > 0 {
			t.Errorf("the store has %v, %v", names, err)
		}
	}
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
