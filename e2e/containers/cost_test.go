package containers

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// The container: files of 1 MiB, half of them text and half random, in its layer and in a
// volume.
const (
	layerFiles  = 2000
	volumeFiles = 1000
)

const makeFiles = `mkdir -p $1; cd $1; dd if=/dev/zero bs=1M count=1 2>/dev/null | tr '\000' x >/tmp/x
i=0; while [ $i -lt $2 ]; do if [ $((i%2)) = 0 ]; then dd if=/dev/urandom of=f$i bs=1M count=1; else seq $((i*1000000)) $((i*1000000+116000)) >f$i; fi 2>/dev/null; i=$((i+1)); done; sync`

// BenchmarkSuspend says what it takes to suspend and resume a container of 2 GB with a volume
// of 1 GB, the first time and when a hundredth of its files has changed, beside what people
// do by hand:
//
//	go test -run - -bench Suspend -benchtime 1x -timeout 20m ./containers
func BenchmarkSuspend(b *testing.B) {
	e := dockertest.Shared(b)
	e.Busybox(b)
	s := stack.New(program, b.TempDir())
	if err := s.Up("--docker", e.URL); err != nil {
		b.Fatal(err)
	}
	must := func(args ...string) time.Duration {
		b.Helper()
		began := time.Now()
		if _, err := s.Must(args...); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	for b.Loop() {
		must("run", "--name", "big", "--image", "busybox:test", "--container-name", "big", "--idle", "never", "--network", "none", "-v", "bigdata:/volume", "--", "sleep", "1000000")
		run(b, e, fmt.Sprintf("set -- /files %d; ", layerFiles)+makeFiles)
		run(b, e, fmt.Sprintf("set -- /volume/files %d; ", volumeFiles)+makeFiles)
		time.Sleep(3 * time.Second) // or its files would count as being changed
		byHand(b, e, "by hand")
		report(b, s, "first suspend", must("suspend", "big"))
		b.Logf("%-28s %6.2f s", "resume", must("ensure", "big").Seconds())
		change(b, e)
		report(b, s, "suspend, 1 % changed", must("suspend", "big"))
		b.Logf("%-28s %6.2f s", "resume", must("ensure", "big").Seconds())
		report(b, s, "checkpoint, at once", must("checkpoint", "big"))
		change(b, e)
		report(b, s, "checkpoint, 1 % changed", must("checkpoint", "big"))
		change(b, e)
		report(b, s, "once more", must("checkpoint", "big"))
		report(b, s, "nothing changed", must("checkpoint", "big"))
		byHand(b, e, "by hand, 1 % changed")
		must("rm", "--yes", "big")
	}
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}

func run(b *testing.B, e *dockertest.Engine, script string) {
	b.Helper()
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // it may be about to run
		if _, err = e.Exec(context.Background(), "big", "sh", "-c", script); err == nil {
			return
		}
	}
	b.Fatal(err)
}

// change writes a hundredth of the files again.
func change(b *testing.B, e *dockertest.Engine) {
	b.Helper()
	for dir, n := range map[string]int{"/files": layerFiles, "/volume/files": volumeFiles} {
		run(b, e, fmt.Sprintf("cd %s && i=0; while [ $i -lt %d ]; do dd if=/dev/urandom of=f$i bs=1M count=1 2>/dev/null; i=$((i+100)); done", dir, n))
	}
	time.Sleep(3 * time.Second) // it is used for a while
}

func report(b *testing.B, s *stack.Stack, what string, took time.Duration) {
	b.Helper()
	v, err := s.View("big")
	if err != nil || v.Snapshot == nil {
		b.Fatalf("%v: %+v", err, v)
	}
	b.Logf("%-28s %6.2f s, %7.1f MB stored, paused %5d ms", what, took.Seconds(), float64(v.Snapshot.StoredBytes)/1e6, paused(b, s))
}

// paused finds how long the container stood still in the last capture.
func paused(b *testing.B, s *stack.Stack) int64 {
	b.Helper()
	v, err := s.View("big")
	if err != nil {
		b.Fatal(err)
	}
	for _, st := range v.LastTransition.Stages {
		if st.Name == "capture" {
			return st.MS
		}
	}
	if v.LastTransition.Type == schemas.TReaped {
		return -1 // the transition before says it
	}
	return 0
}

// byHand does what people do: commit, save, tar, each through zstd and age.
func byHand(b *testing.B, e *dockertest.Engine, what string) {
	b.Helper()
	ctx := context.Background()
	began := time.Now()
	got, err := e.Client.ContainerCommit(ctx, "big", client.ContainerCommitOptions{Reference: "big:saved", Config: &container.Config{}})
	if err != nil {
		b.Fatal(err)
	}
	committed := time.Since(began)
	saved, err := e.Client.ImageSave(ctx, []string{got.ID})
	if err != nil {
		b.Fatal(err)
	}
	size := sealed(b, saved)
	saved.Close()
	v, err := e.Client.VolumeInspect(ctx, "bigdata", client.VolumeInspectOptions{})
	if err != nil {
		b.Fatal(err)
	}
	tar := exec.Command("tar", "-C", v.Volume.Mountpoint, "-c", ".")
	out, err := tar.StdoutPipe()
	if err == nil {
		err = tar.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	size += sealed(b, out)
	if err := tar.Wait(); err != nil {
		b.Fatal(err)
	}
	b.Logf("%-28s %6.2f s, %7.1f MB stored, paused %5d ms for the commit alone", what, time.Since(began).Seconds(), float64(size)/1e6, committed.Milliseconds())
	if _, err := e.Client.ImageRemove(ctx, "big:saved", client.ImageRemoveOptions{PruneChildren: true}); err != nil {
		b.Fatal(err)
	}
}

// sealed compresses and encrypts into a file, and gives its size.
func sealed(b *testing.B, r io.Reader) int64 {
	b.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(filepath.Join(b.TempDir(), "sealed"))
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	w, err := age.Encrypt(f, id.Recipient())
	if err != nil {
		b.Fatal(err)
	}
	zstd := exec.Command("zstd", "-1", "-T2", "-c")
	zstd.Stdin, zstd.Stdout = r, w
	if err := zstd.Run(); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return st.Size()
}
