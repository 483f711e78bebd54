package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// stored makes a suspended session whose image is in a directory, and gives its packs.
func (b *bench) stored() (v statekv.Versioned, root string, packs []string) {
	b.t.Helper()
	root = b.t.TempDir()
	b.images.Store = mustOpen(b.t, root)
	v, _ = b.asleep()
	packs, err := filepath.Glob(filepath.Join(root, "default", v.Lineage, "packs", "*"))
	b.must(err)
	if len(packs) == 0 {
		b.t.Fatal("the image has no packs")
	}
	return v, root, packs
}

// unresumed has a resume fail.
func (b *bench) unresumed() statekv.Versioned {
	b.t.Helper()
	b.resume()
	return b.until("a failure", func(v statekv.Versioned) bool { return suspended(v) && v.Transition.Type == schemas.TResumeFailed })
}

// fresh starts it in place of its image, as the scheduler would.
func (b *bench) fresh(v statekv.Versioned, cause schemas.Cause) {
	b.t.Helper()
	b.change(session.FreshStart(v.SessionRecord, cause, b.op(schemas.OpStart).Seq, time.Now()))
}

// A session whose image is damaged starts clean; the image stays, and the next one needs nothing of it.
func TestFreshStart(t *testing.T) {
	b := newBench(t)
	v, _, packs := b.stored()
	for _, p := range packs {
		b.must(os.Remove(p))
	}
	got := b.unresumed()
	if got.Failure.Cause != schemas.CauseDamaged || got.Failure.Resumes != 1 || *got.Head != *v.Head {
		t.Fatalf("failure %+v, head %v", got.Failure, got.Head)
	}
	b.fresh(got, schemas.CauseDamaged)
	runs := b.until("running", running)
	if runs.UID != v.UID || runs.Boot != schemas.BootClean || runs.Head != nil || runs.Notice == nil || !runs.PointsAt(*v.Head) {
		t.Fatalf("it runs as %+v", runs.SessionRecord)
	}
	if n := b.count(v.UID); n != 1 {
		t.Errorf("it goes on with %d", n)
	}
	b.suspend(false)
	again := b.until("suspended", suspended)
	b.resume()
	if got := b.until("resumed", running); !got.PointsAt(*v.Head) || !got.PointsAt(*again.Head) {
		t.Errorf("it points at %v", got.Heads())
	}
	if n := b.count(v.UID); n != 2 {
		t.Errorf("after its next resume it goes on with %d", n)
	}
	b.folded()
}

// What was lost may be back before the session is started without it: then it isn't.
func TestFreshStartIsTakenBack(t *testing.T) {
	b := newBench(t)
	v, root, packs := b.stored()
	away := filepath.Join(t.TempDir(), "packs")
	dir := filepath.Dir(packs[0])
	b.must(os.Rename(dir, away))
	got := b.unresumed()
	if got.Failure.Cause != schemas.CauseDamaged {
		t.Fatalf("failure %+v", got.Failure)
	}
	b.crash()
	b.must(os.RemoveAll(dir))
	b.must(os.Rename(away, dir))
	b.fresh(got, schemas.CauseDamaged)
	b.work()
	back := b.until("taken back", made(schemas.TStartFailed))
	if !suspended(back) || back.Notice != nil || *back.Head != *v.Head || !strings.Contains(back.Failure.Text, "may be of use again") {
		t.Fatalf("%+v", back.SessionRecord)
	}
	b.resume()
	b.until("running", running)
	if m := b.count(v.UID); m < 2 {
		t.Errorf("it goes on with %d; the store is %s", m, root)
	}
	b.folded()
}

// While the store is away, or is another one, nothing is proven.
func TestStoreAwayProvesNothing(t *testing.T) {
	for what, leave := range map[string]func(b *bench, root string){
		"nothing at its place": func(b *bench, root string) { b.must(os.RemoveAll(root)) },
		"an empty directory": func(b *bench, root string) {
			b.must(os.RemoveAll(root))
			b.must(os.Mkdir(root, 0o700))
		},
		"it answers with errors": func(b *bench, _ string) { b.images.set(func(s *faultyStore) { s.failGets = "/" }) },
		"packs with errors":      func(b *bench, _ string) { b.images.set(func(s *faultyStore) { s.failGets = "/packs/" }) },
		"its keys are gone": func(b *bench, root string) {
			keys, err := filepath.Glob(filepath.Join(root, "default", "*", "keys"))
			b.must(err)
			for _, k := range keys {
				b.must(os.RemoveAll(k))
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			v, root, _ := b.stored()
			leave(b, root)
			got := b.unresumed()
			if got.Failure.Cause != "" || *got.Head != *v.Head {
				t.Errorf("failure %+v", got.Failure)
			}
			if why := session.Fresh(got.SessionRecord, session.Policy{OnResume: schemas.ResumeFresh}); why != "" {
				t.Errorf("it would be started without its memory: %s", why)
			}
		})
	}
}

// What CRIU refuses on one host proves nothing by itself; which host that was is noted. What fails for another
// reason isn't noted so.
func TestRefusedImage(t *testing.T) {
	b := newBench(t)
	v, _ := b.asleep()
	b.fake.Script("Restore", fake.Step{Before: &driver.Error{Kind: driver.Refused, Engine: true, Text: "criu says: Can't find file"}})
	got := b.unresumed()
	if f := got.Failure; f.Cause != "" || len(f.Refused) != 1 || f.Refused[0] != "h" || *got.Head != *v.Head {
		t.Errorf("failure %+v", f)
	}
	b.fake.Script("Restore", fake.Step{Before: &driver.Error{Kind: driver.Refused, Text: "a port is taken"}})
	b.resume()
	second := b.until("a second failure", func(v statekv.Versioned) bool { return v.Failure != nil && v.Failure.Resumes == 2 })
	if f := second.Failure; len(f.Refused) != 0 || f.Cause != "" {
		t.Errorf("failure %+v", f)
	}
}
