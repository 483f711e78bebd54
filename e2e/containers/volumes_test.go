package containers

import (
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/docker/dockertest"
)

// volume makes a volume of someone's, which is there before the session and after it, and
// gives its directory.
func (h *host) volume(name string) (dir string) {
	h.t.Helper()
	got, err := h.e.Client.VolumeCreate(h.t.Context(), client.VolumeCreateOptions{Name: name})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if _, err := h.e.Client.VolumeRemove(ctx, name, client.VolumeRemoveOptions{}); err != nil {
			h.t.Error(err)
		}
	})
	return got.Volume.Mountpoint
}

// What is in a volume stays while any of what would replace it is damaged, and isn't
// replaced in part.
func TestVolumeOutlivesDamagedImage(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	at := h.volume("theirs")
	big := make([]byte, 30<<20) // which doesn't compress: it is more than a pack
	if _, err := rand.NewChaCha8([32]byte{}).Read(big); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, "big"), string(big))
	h.must("run", "--name", "work", "--image", "busybox:test", "--container-name", "work", "--idle", "never", "--network", "none", "-v", "theirs:/data", "--", "sleep", "100000")
	h.runs("work")
	h.must("suspend", "work")
	write(t, filepath.Join(at, "big"), "since then")
	write(t, filepath.Join(at, "other"), "since then")

	packs := h.packs()
	if len(packs) < 2 {
		t.Fatalf("all is in %q, and with it how the container is made, which is read first", packs)
	}
	for _, p := range packs {
		flip(t, p)
		if r := h.Do("resume", "work"); r.Code != 1 || !strings.Contains(r.Err, "is damaged") {
			t.Errorf("from a damaged image: %+v", r)
		}
		for _, name := range []string{"big", "other"} {
			if got, err := os.ReadFile(filepath.Join(at, name)); err != nil || string(got) != "since then" {
				t.Errorf("%s in the volume has %d bytes, %v", name, len(got), err)
			}
		}
		if left := h.left(); !slices.Equal(left, []string{"volume theirs"}) {
			t.Errorf("after a resume that failed there is %q", left)
		}
		flip(t, p)
	}
	h.must("resume", "work")
	if got, err := os.ReadFile(filepath.Join(at, "big")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("the volume has %d bytes, %v", len(got), err)
	}
	if _, err := os.Stat(filepath.Join(at, "other")); err == nil {
		t.Error("a file that the snapshot doesn't have is in the volume")
	}
	h.must("rm", "--yes", "work")
}

// packs lists the files of the store that contents are in.
func (h *host) packs() (paths []string) {
	h.t.Helper()
	err := filepath.WalkDir(h.Data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "/packs/") && !strings.HasSuffix(path, ".ids.age") { // what a resume doesn't read
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return paths
}

// flip changes one bit in the middle of a file, or changes it back.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Going back to a snapshot replaces a volume that others use only if that was asked for.
func TestRollbackOfSharedVolume(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	h.volume("common")
	run := func(name string, flags ...string) {
		t.Helper()
		h.must(slices.Concat([]string{"run", "--name", name, "--image", "busybox:test", "--container-name", name, "--idle", "never", "--network", "none", "-v", "common:/data"},
			flags, []string{"--", "sleep", "100000"})...)
		h.runs(name)
	}
	run("other")
	run("keeps")
	run("replaces", "--shared-volumes")
	for _, name := range []string{"keeps", "replaces"} {
		h.until(name, "echo then >/data/f; echo then >/f")
		h.must("checkpoint", name)
		then := h.view(name).Snapshot.ID
		h.until(name, "echo now >/f")
		h.until("other", "echo now >/data/f")
		h.must("rollback", name, then)
		want := map[string]string{"keeps": "now", "replaces": "then"}[name]
		if got := h.until(name, "cat /f /data/f"); got != "then\n"+want {
			t.Errorf("%s has %q in its layer and in the volume", name, got)
		}
		if got := h.until("other", "cat /data/f"); got != want {
			t.Errorf("%s went back, and the other container has %q", name, got)
		}
	}
	for _, name := range []string{"keeps", "replaces", "other"} {
		h.must("rm", "--yes", name)
	}
	if left := h.left(); !slices.Equal(left, []string{"volume common"}) {
		t.Errorf("%q is left", left)
	}
}
