package rootfs

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

// built is how an engine makes an image with all that layers can say.
const built = `FROM busybox:test
RUN mkdir /d /gone /opaque /below && echo a >/d/a && ln /d/a /d/hard && ln /d/a /d/other && ln -s a /d/soft && mkfifo /d/fifo \
 && touch /gone/x /opaque/old /below/x && chmod 4711 /d/other && chown -h 12:34 /d/soft && chmod 1777 /opaque && chown 5:6 /below
ADD caps.tar /
RUN rm -rf /gone /etc/lower /opaque && mkdir /opaque && touch /opaque/new && echo more >>/d/a && truncate -s 3000000 /d/sparse \
 && mv /below /moved && ln /d/sparse /d/sparse-too && rm /d/soft && mkdir /d/soft && touch "$(printf '/d/soft/a name\nof two lines')"
`

// capability lets a file's program bind low ports: CAP_NET_BIND_SERVICE, permitted and effective.
const capability = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// An image that an engine builds has the same files as a root that a container of that engine has,
// whether it comes from the engine, or by a registry to which that pushed it.
func TestWhatAnEngineBuilds(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	reg := serve(t)
	tag := reg.host + "/built:1"
	buildImage(t, e, tag)
	want := exported(t, e, tag)
	s, err := Open(filepath.Join(t.TempDir(), "roots"), e.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.ImageTag(t.Context(), client.ImageTagOptions{Source: tag, Target: "built:1"}); err != nil {
		t.Fatal(err)
	}
	pushed, err := e.Client.ImagePush(t.Context(), tag, client.ImagePushOptions{RegistryAuth: "e30="})
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(pushed)
	if err := errors.Join(err, pushed.Close()); err != nil || bytes.Contains(said, []byte(`"error"`)) {
		t.Fatalf("push: %v: %s", err, said)
	}
	for _, ref := range []string{"engine:built:1", tag} {
		root, err := s.Start(t.Context(), user("u"), ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		got := unpacked(t, root.Tree)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got[name] != want[name] {
				t.Errorf("%s: %q is %q, want %q", ref, name, got[name], want[name])
			}
			delete(got, name)
		}
		for name, is := range got {
			t.Errorf("%s: there is %q besides, %s", ref, name, is)
		}
		linked(t, root.Tree, "d/hard", "d/other")
		linked(t, root.Tree, "d/sparse", "d/sparse-too")
	}
}

// buildImage has an engine build an image, as `docker build` does.
func buildImage(t *testing.T, e *dockertest.Engine, tag string) {
	t.Helper()
	able := regular("able", "able").with(func(h *tar.Header) {
		h.Mode, h.PAXRecords = 0o755, map[string]string{"SCHILY.xattr.security.capability": capability}
	})
	caps := archive(t, able)
	context := archive(t, regular("Dockerfile", built), regular("caps.tar", string(caps)))
	made, err := e.Client.ImageBuild(t.Context(), bytes.NewReader(context), client.ImageBuildOptions{
		Tags: []string{tag}, Version: build.BuilderV1, NetworkMode: "none", Remove: true, ForceRemove: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(made.Body)
	if err := errors.Join(err, made.Body.Close()); err != nil || bytes.Contains(said, []byte(`"error"`)) {
		t.Fatalf("build: %v: %s", err, said)
	}
	t.Cleanup(func() {
		for _, name := range []string{tag, "built:1"} {
			_, _ = e.Client.ImageRemove(t.Context(), name, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		}
	})
}

// looks is what a file is, as both sides tell it.
func looks(mode fs.FileMode, uid, gid int, size int64, more string) string {
	kept := mode & (fs.ModeType | fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	if !mode.IsRegular() {
		size = 0
	}
	return fmt.Sprintf("%v %d:%d %d %s", kept, uid, gid, size, more)
}

// engines are files that an engine adds to each container.
var engines = []string{".dockerenv", "dev/console", "dev/pts", "dev/shm", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf"}

// exported lists the files that a container of an image has.
func exported(t *testing.T, e *dockertest.Engine, image string) map[string]string {
	t.Helper()
	made, err := e.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: image, Cmd: []string{"none"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := e.Client.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{}); err != nil {
			t.Error(err)
		}
	}()
	files, err := e.Client.ContainerExport(t.Context(), made.ID, client.ContainerExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	all := map[string]string{}
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Trim(h.Name, "/")
		if name == "" || name == "." || slices.Contains(engines, name) {
			continue
		}
		if h.Typeflag == tar.TypeLink {
			all[name] = all[strings.Trim(h.Linkname, "/")]
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			t.Fatal(err)
		}
		all[name] = looks(h.FileInfo().Mode(), h.Uid, h.Gid, h.Size, fmt.Sprintf("%s%x %x", h.Linkname, sum.Sum(nil), h.PAXRecords["SCHILY.xattr.security.capability"]))
	}
}

// unpacked lists the files of a tree.
func unpacked(t *testing.T, tree string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(tree, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(tree, path)
		if err != nil || name == "." || slices.Contains(engines, name) {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		sum, target := sha256.New(), ""
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum.Write(b)
		case info.Mode()&fs.ModeSymlink != 0:
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		value := make([]byte, 64)
		n, err := unix.Lgetxattr(path, "security.capability", value)
		if err != nil {
			n = 0
		}
		all[name] = looks(info.Mode(), int(st.Uid), int(st.Gid), st.Size, fmt.Sprintf("%s%x %x", target, sum.Sum(nil), value[:n]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// linked fails the test if two names are of two files.
func linked(t *testing.T, tree, one, two string) {
	t.Helper()
	a, errA := os.Stat(filepath.Join(tree, one))
	b, errB := os.Stat(filepath.Join(tree, two))
	if err := errors.Join(errA, errB); err != nil || !os.SameFile(a, b) {
		t.Errorf("%s and %s are two files, %v", one, two, err)
	}
}
