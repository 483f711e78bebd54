package recordings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// What comes as an identity is never the name of another folder.
func TestIdentities(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	for _, uid := range []schemas.UID{"", ".", "..", "../..", "a/b", schemas.UID("../" + filepath.Base(b.dir))} {
		if err := b.spool.Remove(t.Context(), uid); err == nil {
			t.Errorf("%q is forgotten", uid)
		}
		if err := b.spool.Forget(t.Context(), uid); err == nil {
			t.Errorf("%q is forgotten on request", uid)
		}
		if end, err := b.spool.Store(t.Context(), uid); err == nil {
			t.Errorf("%q is stored: %+v", uid, end)
		}
		r := b.record
		r.UID = uid
		if to, _ := b.spool.Begin(t.Context(), r, schemas.Spec{TTY: true, Record: schemas.RecordOutput}, nil); to != nil {
			t.Errorf("%q is recorded in %s", uid, to.Dir)
		}
	}
	if _, err := os.Stat(filepath.Join(b.to.Dir, driver.RunFile)); err != nil {
		t.Error(err)
	}
	if err := b.spool.Forget(t.Context(), b.record.UID); err == nil {
		t.Error("a session that isn't deleted is forgotten")
	}
	b.record.State = schemas.Deleted
	if err := b.spool.Forget(t.Context(), b.record.UID); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.to.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the session's folder: %v", err)
	}
}

// A run that a crash left without what describes it keeps no other from being stored. It is removed, or put away with its segments.
func TestUnreadableRun(t *testing.T) {
	for _, file := range []string{driver.RunFile, driver.LastFile} {
		for _, segments := range []int{0, 1} {
			b := newBench(t)
			b.begins(nil)
			broken := b.to.Dir
			for range segments {
				b.spills("lost ")
			}
			if err := os.WriteFile(filepath.Join(broken, file), []byte(`{"u`), 0o600); err != nil {
				t.Fatal(err)
			}
			b.record.Epoch, b.at = 2, 0
			b.begins(nil)
			b.spills("one")
			b.stores()
			b.wants("one")
			_, err := os.Stat(broken)
			_, aside := os.Stat(broken + asideSuffix)
			if !errors.Is(err, fs.ErrNotExist) || (aside == nil) != (segments > 0) {
				t.Errorf("%s, %d segments: %v, %v", file, segments, err, aside)
			}
		}
	}
}

// An attempt to start that failed says nothing of where the recording is.
func TestFailedAttempt(t *testing.T) {
	for range 4 { // names are random
		b := newBench(t)
		b.begins(nil)
		b.spills("one ")
		end := b.stores()
		b.record.Epoch = 2
		b.begins(end)
		b.begins(end)
		b.spills("two")
		to, release := b.to, b.release
		b.begins(end)
		b.ends()
		b.to, b.release = to, release
		if got := b.stores(); got.End.Run == end.End.Run {
			t.Error("what the run showed isn't part of the recording")
		}
		b.wants("one two")
	}
}

// The run of which more may come has the end, if another one of its epoch has segments, too.
func TestLiveRun(t *testing.T) {
	for range 4 {
		b := newBench(t)
		b.begins(nil)
		b.spills("failed")
		b.at = 0
		b.begins(nil)
		lock, err := driver.LockRun(b.to.Dir, false)
		if err != nil {
			t.Fatal(err)
		}
		to, live := b.to, filepath.Base(b.to.Dir)
		b.begins(nil)
		b.ends()
		if got := b.stores(); got.End != nil {
			t.Errorf("before it has segments the end is %+v", got.End)
		}
		b.to = to
		b.spills("one")
		if got := b.stores(); got.End.Run != live {
			t.Errorf("the end is %+v, want one of %s", got.End, live)
		}
		lock.Close()
	}
}

// A key is gone on with only if it is stored.
func TestKeyThatIsNotStored(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one ")
	end := b.stores()
	end.Key.KID = "" // the next run needs one of its own
	b.record.Epoch = 2
	b.begins(end)
	again := b.stores()
	if again.Key.KID != "" || again.End == nil {
		t.Errorf("nothing was stored, and the end is %+v", again)
	}
	b.record.Epoch = 3
	b.begins(again)
	b.spills("two")
	b.stores()
	b.wants("one two")
}

// What the store doesn't find isn't what the recorder took out.
func TestStoreWithoutItsFolder(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one")
	b.store.lost = fmt.Errorf("the store's folder: %w", fs.ErrNotExist)
	if _, err := b.spool.Store(t.Context(), b.record.UID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the answer is %v", err)
	}
	b.store.lost = nil
	b.stores()
	b.wants("one")
}

// A disk that takes no note of what is stored keeps no session from being suspended, and nothing is lost or doubled.
func TestNoNote(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one ")
	if err := os.Mkdir(filepath.Join(b.to.Dir, driver.LastFile+".new"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.stores()
	b.spills("two ")
	b.stores()
	b.wants("one two ")
	if len(b.left()) != 4 {
		t.Errorf("%v wait", b.left())
	}
	if err := os.Remove(filepath.Join(b.to.Dir, driver.LastFile+".new")); err != nil {
		t.Fatal(err)
	}
	b.spills("three")
	b.stores()
	b.wants("one two three")
	if len(b.left()) != 0 {
		t.Errorf("%v wait", b.left())
	}
}

// A session that can't be recorded is started.
func TestBeginsWithoutDisk(t *testing.T) {
	b := newBench(t)
	b.moves(filepath.Join(b.dir, "file"))
	if err := os.WriteFile(b.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	to, release := b.spool.Begin(t.Context(), b.record, schemas.Spec{TTY: true, Record: schemas.RecordOutput}, nil)
	if to != nil {
		t.Errorf("it is recorded in %s", to.Dir)
	}
	release()
}

// One who reads doesn't wait for segments that can't be stored, or for a store that is away.
func TestReadsWithoutStore(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one ")
	b.stores()
	b.spills("two")
	b.spool.patience = time.Millisecond
	unlock, err := b.spool.lock(t.Context(), b.record.UID) // something is stored all the time
	if err != nil {
		t.Fatal(err)
	}
	b.wants("one ")
	b.record.State, b.spool.due = schemas.Deleted, map[schemas.UID]bool{}
	if err := b.spool.Forget(t.Context(), b.record.UID); err == nil || !b.spool.due[b.record.UID] {
		t.Errorf("it is forgotten later, the answer is %v", err)
	}
	unlock()
	b.store.mute = true
	away := impatient{b.store, time.Millisecond}
	if _, err := away.Get(t.Context(), "x", 0, -1); !errors.Is(err, errNoAnswer) {
		t.Errorf("reading: %v", err)
	}
	if err := away.List(t.Context(), "x", nil); !errors.Is(err, errNoAnswer) {
		t.Errorf("listing: %v", err)
	}
}

// Of a session that was lost all is read that was stored, not only what came before its last snapshot.
func TestReadsLost(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one")
	b.stores()
	b.record.State, b.record.Head = schemas.Failed, &schemas.Head{}
	b.wants("one")
}

// plainImage is one of a run that wasn't recorded.
type plainImage struct{ at time.Time }

func (plainImage) Entries() []image.Entry             { return nil }
func (plainImage) Open(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }
func (p plainImage) Header() schemas.ImageHeader      { return schemas.ImageHeader{Time: p.at} }

// A recording goes on behind a run that wasn't recorded, unless the session is taken back to before it.
func TestGoesOnUnrecorded(t *testing.T) {
	for _, back := range []bool{false, true} {
		b := newBench(t)
		before := time.Now().Add(-time.Hour)
		b.begins(nil)
		b.spills("one ")
		b.stores()
		want := "one [7]two"
		img := plainImage{time.Now().Add(time.Hour)}
		if b.at += 7; back {
			img.at, want = before, "two"
		}
		b.record.Epoch = 2
		b.resumes(img)
		b.spills("two")
		b.stores()
		b.wants(want)
	}
}
