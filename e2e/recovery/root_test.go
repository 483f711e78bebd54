package recovery

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"
)

// layered is how an engine makes an image of more than one layer, with something deleted.
const layered = "FROM busybox:test\nRUN rm -r /home /etc/lower && mkdir /home && echo new >/home/new && ln /home/new /home/too\n"

// startRooted starts a session on the files of an image that is nowhere else then, and suspends it.
func (f *fixture) startRooted(t *testing.T, name string) {
	t.Helper()
	f.engine.Busybox(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(layered))})
	if err == nil {
		_, err = io.WriteString(w, layered)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	made, err := f.engine.Client.ImageBuild(t.Context(), &b, client.ImageBuildOptions{
		Tags: []string{"rooted:1"}, Version: build.BuilderV1, NetworkMode: "none", Remove: true, ForceRemove: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(made.Body)
	if err := errors.Join(err, made.Body.Close()); err != nil || bytes.Contains(said, []byte(`"error"`)) {
		t.Fatalf("build: %v: %s", err, said)
	}
	f.start(t, name, 3, []string{"--root", "oci:engine:rooted:1", "--", "/bin/sh", "-c", counting})
	if _, err := f.engine.Client.ImageRemove(t.Context(), "rooted:1", client.ImageRemoveOptions{PruneChildren: true}); err != nil {
		t.Fatal(err)
	}
}

// recoverRooted makes the files of the session's root, as the document says, and brings the session
// back on them.
func (f *fixture) recoverRooted(t *testing.T, lineage string) {
	steps := regexp.MustCompile("(?s)root/index.json.*?```sh\n(.*?)```").FindSubmatch(text(t))
	if steps == nil {
		t.Fatalf("%s shows no steps for roots", document)
	}
	work, root := filepath.Join(f.dir, "rooted-files"), filepath.Join(f.dir, "rooted-root")
	if err := errors.Join(os.Mkdir(work, 0o700), os.Mkdir(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, "/usr/bin/python3", f.script, lineage, only(t, lineage), f.identity, work, "/"),
		exec.CommandContext(ctx, "sh", "-c", string(steps[1])),
	} {
		cmd.Env = []string{"PATH=" + filepath.Join(f.dir, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "work=" + work, "root=" + root}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, name := range []string{"etc/lower", "home/.wh..wh..opq"} {
		if _, err := os.Lstat(filepath.Join(root, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s, which the image doesn't have, is there: %v", name, err)
		}
	}
	one, errOne := os.Stat(filepath.Join(root, "home/new"))
	two, errTwo := os.Stat(filepath.Join(root, "home/too"))
	if err := errors.Join(errOne, errTwo); err != nil || !os.SameFile(one, two) {
		t.Errorf("two names of a file of the image are of two files, %v", err)
	}
	goes := filepath.Join(root, f.goes)
	if err := errors.Join(os.MkdirAll(filepath.Dir(goes), 0o755), os.WriteFile(goes, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	f.recover(t, lineage, root)
}
