package criu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// damaged is a source whose large images end in damage after some bytes.
type damaged struct{ *drivertest.Image }

var errDamage = fmt.Errorf("%w: packs/1", image.ErrCorrupt)

func (d *damaged) Open(name string) (io.ReadCloser, error) {
	b, ok := d.Content(name)
	if !ok || part(name) != partCriu || len(b) < 8<<20 {
		return d.Image.Open(name)
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(b[:5<<20]), failing{})), nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDamage }

// lost is a session with a large file that has no name any more, whose restore
// copies it in another way than pages.
var lost = answering(`open(my $f, "+>", "/tmp/gone") or die; unlink "/tmp/gone";
	open(my $r, "<", "/dev/urandom") or die; for (1..16) { read($r, my $b, 1 << 20); syswrite($f, $b); }`,
	`use Digest::MD5; seek($f, 0, 0); Digest::MD5->new->addfile($f)->hexdigest`)

// TestDamageInMidRestore has an image that is found to be damaged while criu restores from it:
// nothing has run, and the whole image is good for another time.
func TestDamageInMidRestore(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]schemas.Spec{"in pages": holding(16), "in a file": lost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, streaming(t, t.TempDir()), "s", spec)
			s.want("ready")
			before := s.ask("1", "digest")
			img := s.suspend()
			s.refuses(&damaged{img})
			s.resume(img, schemas.BootResume)
			if after := s.ask("2", "digest"); after != before {
				t.Errorf("it has the digest %s, and had %s", after, before)
			}
		})
	}
}

// refuses expects that a source can't be restored, and that nothing is left of it.
func (s *session) refuses(source driver.Source) {
	s.t.Helper()
	_, err := s.d.Restore(limited(s.t), s.next(), s.spec, source, schemas.BootResume, func(context.Context) error {
		s.t.Error("it was about to run")
		return nil
	})
	if !errors.Is(err, image.ErrCorrupt) {
		s.t.Errorf("Restore gives %v", err)
	}
	if _, err := s.d.Inspect(limited(s.t), s.uid); !errors.Is(err, driver.ErrNotHere) {
		s.t.Errorf("after that it is here: %v", err)
	}
}

// roleServe is a worker that dies while criu restores from it.
const roleServe = "die-in-serving"

func init() {
	roles[roleServe] = func(t *tester, d *Driver) error {
		if _, err := d.Start(t.ctx, drivertest.Fence("s", 1), lost, drivertest.Begin); err != nil {
			return err
		}
		awaitReady(t.ctx, d)
		img := &drivertest.Image{}
		if _, err := d.Capture(t.ctx, drivertest.Fence("s", 2), img); err != nil {
			return err
		}
		if err := d.Stop(t.ctx, drivertest.Fence("s", 2)); err != nil {
			return err
		}
		_, err := d.Restore(t.ctx, drivertest.Fence("s", 3), lost, &dying{img}, schemas.BootResume, drivertest.Begin)
		return err
	}
}

// awaitReady waits until the large file is complete: what comes after it is there.
func awaitReady(ctx context.Context, d *Driver) {
	for ctx.Err() == nil {
		state, err := d.shims.readState("s")
		if err == nil {
			_, err = os.Stat(fmt.Sprintf("/proc/%d/root/tmp/ask", state.PID))
		}
		if err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// dying kills its process in the middle of a large file.
type dying struct{ *drivertest.Image }

func (d *dying) Open(name string) (io.ReadCloser, error) {
	b, ok := d.Content(name)
	if !ok || !strings.HasPrefix(name, "criu/ghost-file-") {
		return d.Image.Open(name)
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(b[:5<<20]), readerFunc(func([]byte) (int, error) {
		dieNow()
		return 0, nil
	}))), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestWorkerKilledInMidRestore(t *testing.T) {
	t.Parallel()
	d := streaming(t, t.TempDir())
	die(t, d, roleServe)
	again := streaming(t, d.options.Data)
	all, err := again.Recover(limited(t))
	if err != nil || len(all) != 0 {
		t.Errorf("Recover gives %+v, %v", all, err)
	}
	if left, err := again.shims.known(); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestRealImageStreamed writes a real image while criu dumps, damages its last pack
// and mends it: with the damage nothing is run.
func TestRealImageStreamed(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	s := begin(t, streaming(t, t.TempDir()), "s", holding(24))
	s.want("ready")
	before := s.ask("1", "digest")
	objects := t.TempDir()
	store, err := dir.Open(objects)
	if err != nil {
		t.Fatal(err)
	}
	write, read := benchKeys(t)
	head, header := s.store(store, write)
	pack := filepath.Join(objects, "t/l/packs", header.Packs[len(header.Packs)-1].Name+".age")
	flipLast(t, pack)
	img, err := image.Open(limited(t), store, head, read)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	_, err = s.d.Restore(limited(t), s.next(), s.spec, img, schemas.BootResume, func(context.Context) error {
		t.Error("it was about to run")
		return nil
	})
	if !errors.Is(err, image.ErrCorrupt) {
		t.Errorf("Restore gives %v", err)
	}
	flipLast(t, pack)
	if _, err := s.d.Restore(limited(t), s.next(), s.spec, img, schemas.BootResume, drivertest.Begin); err != nil {
		t.Fatal(err)
	}
	if after := s.ask("2", "digest"); after != before {
		t.Errorf("its memory has the digest %s, and had %s", after, before)
	}
}

// store suspends the session to a store.
func (s *session) store(store *dir.Store, o image.WriteOptions) (image.Head, schemas.ImageHeader) {
	s.t.Helper()
	w, err := image.Create(limited(s.t), store, o)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.d.Capture(limited(s.t), s.next(), w); err != nil {
		s.t.Fatal(err)
	}
	head, header, _, err := w.Commit(limited(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.d.Stop(limited(s.t), s.next()); err != nil {
		s.t.Fatal(err)
	}
	return head, header
}

func flipLast(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
