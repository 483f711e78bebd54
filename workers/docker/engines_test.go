package docker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// A session goes from one engine to the next: an old one, and today's with each of the ways
// in which it keeps images. What it was made from has another id on each, and goes with it.
func TestFromEngineToEngine(t *testing.T) {
	t.Parallel()
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	engines := map[dockertest.Kind]*dockertest.Engine{}
	for _, k := range []dockertest.Kind{dockertest.Machine, dockertest.Current, dockertest.Containerd} {
		engines[k] = dockertest.NewOf(t, k)
		engines[k].Busybox(t)
	}
	for k, want := range map[dockertest.Kind]string{dockertest.Machine: "overlay2", dockertest.Current: "overlay2", dockertest.Containerd: "containerd image store with overlayfs"} {
		if said := must[string](t)(open(t, engines[k], t.TempDir()).Storage(t.Context())); said != want {
			t.Errorf("engine %s keeps files in %q", k, said)
		}
	}
	t.Run("built", func(t *testing.T) { wanders(t, engines, "busybox:test", true) })
	ref := dockertest.Registry(t)
	for _, e := range engines {
		pull(t, e, ref)
	}
	t.Run("of a registry", func(t *testing.T) { wanders(t, engines, ref, false) })
}

// wanders takes a session of an image from engine to engine, which are all without the image
// but the first one; stored says whether snapshots have it.
func wanders(t *testing.T, engines map[dockertest.Kind]*dockertest.Engine, ref string, stored bool) {
	way := []dockertest.Kind{dockertest.Machine, dockertest.Containerd, dockertest.Current, dockertest.Containerd, dockertest.Machine}
	on := map[dockertest.Kind]*tester{}
	kept := map[dockertest.Kind][]string{}
	for k, e := range engines {
		on[k] = &tester{t, e, open(t, e, t.TempDir())}
		if k != dockertest.Machine {
			_, err := e.Client.ImageRemove(t.Context(), ref, client.ImageRemoveOptions{PruneChildren: true})
			if err != nil {
				t.Fatal(err)
			}
		}
		kept[k] = keptOn(t, e)
	}
	x := on[way[0]]
	spec := withDocker(dockerspec.Options{Image: ref, Volumes: []string{"vol:/vol"}})
	x.start("a", spec)
	x.sh("a", "rm /etc/lower; rm -r /data; mkdir /data; echo 0 >/data/f; echo v >/vol/f")
	for i, to := range way {
		epoch := uint64(2 + 2*i)
		if i > 0 {
			img := x.suspend("a", epoch)
			if slices.Contains(names(img), baseEntry) != stored {
				t.Errorf("on engine %s, that the snapshot holds the image below is %t", way[i-1], !stored)
			}
			if i > 1 && stored { // what was pulled stays, as after `docker run`
				asBefore(t, way[i-1], x.e, kept[way[i-1]])
			}
			x = on[to]
			x.restore("a", epoch+1, img, spec)
		}
		want := "of " + strings.Repeat("engine ", i)
		x.sh("a", "echo '"+want+"' >/home/f")
		if out := x.sh("a", "cat /home/f /data/f /vol/f; ls /etc /data"); out != want+"\n0\nv\n/data:\nf\n\n/etc:\nhostname\nhosts\nmtab\npasswd\nresolv.conf" {
			t.Errorf("on engine %s it has %q", to, out)
		}
	}
	x.suspend("a", 100)
}

func pull(t *testing.T, e *dockertest.Engine, ref string) {
	t.Helper()
	got, err := e.Client.ImagePull(t.Context(), ref, client.ImagePullOptions{})
	if err == nil {
		err = got.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keptOn lists the names of images of an engine, and what its containerd keeps.
func keptOn(t *testing.T, e *dockertest.Engine) (out []string) {
	t.Helper()
	all := must[client.ImageListResult](t)(e.Client.ImageList(t.Context(), client.ImageListOptions{All: true}))
	for _, i := range all.Items {
		out = append(out, i.ID+" "+strings.Join(i.RepoTags, " "))
	}
	at := filepath.Join(e.Dir, "data", "containerd", "daemon")
	for _, pattern := range []string{"io.containerd.content.v1.content/blobs/sha256/*", "io.containerd.snapshotter.v1.overlayfs/snapshots/*"} {
		found := must[[]string](t)(filepath.Glob(filepath.Join(at, pattern)))
		out = append(out, found...)
	}
	slices.Sort(out)
	return out
}

// asBefore waits until an engine has no more than it had: containerd collects what nothing
// needs some time later.
func asBefore(t *testing.T, k dockertest.Kind, e *dockertest.Engine, before []string) {
	t.Helper()
	var now []string
	for end := time.Now().Add(drivertest.Limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if now = keptOn(t, e); slices.Equal(now, before) {
			return
		}
	}
	t.Errorf("engine %s had\n%s\nand has\n%s", k, strings.Join(before, "\n"), strings.Join(now, "\n"))
}
