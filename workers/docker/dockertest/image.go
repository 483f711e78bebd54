package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// programs are what busybox is called in the image.
var programs = []string{
	"sh", "sleep", "cat", "ls", "mkdir", "touch", "echo", "rm", "mv", "cp", "chown", "chmod", "ln", "mkfifo", "stat", "dd", "sync", "id", "env", "true",
	"false", "kill", "ps", "seq", "sha256sum", "find", "test", "nc", "hostname", "truncate", "httpd", "wget", "date",
}

// Busybox makes the image busybox:test of the machine's static busybox, unless it is
// there.
func (e *Engine) Busybox(t testing.TB) string {
	t.Helper()
	const name = "busybox:test"
	if _, err := e.Client.ImageInspect(t.Context(), name); err == nil {
		return name
	}
	e.Import(t, name, bytes.NewReader(busybox(t)))
	return name
}

// busybox gives the files of the image, as a tar file that is always the same.
func busybox(t testing.TB) []byte {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil || !static(path) {
		t.Fatal("these tests make images of a static busybox: install busybox-static (`make setup-test` does)")
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"bin", "etc", "proc", "sys", "dev", "home", "tmp", "data"} {
		add(t, w, tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	add(t, w, tar.Header{Name: "bin/busybox", Mode: 0o755}, program)
	for _, p := range programs {
		add(t, w, tar.Header{Name: "bin/" + p, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	add(t, w, tar.Header{Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/:/bin/sh\nguest:x:65534:65534:guest:/:/bin/sh\n"))
	add(t, w, tar.Header{Name: "etc/lower", Mode: 0o644}, []byte("of the image\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// static reports whether a program needs no libraries.
func static(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	return err == nil && len(libraries) == 0
}

func add(t testing.TB, w *tar.Writer, h tar.Header, content []byte) {
	t.Helper()
	h.Size, h.ModTime = int64(len(content)), time.Unix(1600000000, 0)
	err := w.WriteHeader(&h)
	if err == nil {
		_, err = w.Write(content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Import makes an image of a tar file.
func (e *Engine) Import(t testing.TB, name string, r io.Reader, changes ...string) {
	t.Helper()
	got, err := e.Client.ImageImport(t.Context(), client.ImageImportSource{Source: r, SourceName: "-"}, name, client.ImageImportOptions{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if said, err := io.ReadAll(got); err != nil || bytes.Contains(said, []byte(`"error"`)) {
		t.Fatalf("import image %s: %v: %s", name, err, said)
	}
}

// Leftovers lists what is on the engine besides images that tests made and the networks
// that each engine has.
func (e *Engine) Leftovers(ctx context.Context) (out []string, err error) {
	containers, err := e.Client.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, err
	}
	for _, c := range containers.Items {
		out = append(out, fmt.Sprintf("container %s (%s)", c.Names[0], c.Status))
	}
	volumes, err := e.Client.VolumeList(ctx, client.VolumeListOptions{})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Items {
		out = append(out, "volume "+v.Name)
	}
	networks, err := e.Client.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("type", "custom")})
	if err != nil {
		return nil, err
	}
	for _, n := range networks.Items {
		out = append(out, "network "+n.Name)
	}
	images, err := e.Client.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, err
	}
	for _, i := range images.Items {
		if len(i.RepoTags) == 0 {
			out = append(out, "an image without a name: "+i.ID)
		}
		for _, tag := range i.RepoTags {
			if filepath.Dir(tag) != "." {
				out = append(out, "image "+tag)
			}
		}
	}
	return out, nil
}
