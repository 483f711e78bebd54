package recordings

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/snapshots"
)

// faulty is a store in which a Put goes wrong, before or after it has stored.
type faulty struct {
	objectstore.Store
	fails  func(name string) (stored, failed bool)
	lost   error // of all Puts
	mute   bool  // it answers no question
	puts   int
	bodies int // segments of which more than the head was read
}

func (f *faulty) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if offset > 0 {
		f.bodies++
	}
	if f.mute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.Store.Get(ctx, name, offset, length)
}

func (f *faulty) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	if f.mute {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Store.List(ctx, prefix, fn)
}

var errAway = errors.New("the store is away")

func (f *faulty) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	f.puts++
	if f.lost != nil {
		return f.lost
	}
	stored, failed := false, false
	if f.fails != nil {
		stored, failed = f.fails(name)
	}
	if !failed || stored {
		if err := f.Store.Put(ctx, name, r, size); err != nil {
			return err
		}
	}
	if failed {
		return errAway
	}
	return nil
}

// bench is a host with one session.
type bench struct {
	t       *testing.T
	dir     string
	store   *faulty
	key     *age.X25519Identity
	signer  ed25519.PrivateKey
	record  schemas.SessionRecord
	err     error // of a look at the record
	spool   *Spool
	to      *driver.Recording
	release func() // the run is over
	last    uint64 // number of the last segment
	at      int64  // position in the output
}

func (b *bench) Get(context.Context, schemas.Name) (statekv.Versioned, error) {
	return statekv.Versioned{SessionRecord: b.record}, b.err
}

func newBench(t *testing.T) *bench {
	t.Helper()
	objects, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		t: t, store: &faulty{Store: objects},
		record: schemas.SessionRecord{Tenant: "acme", Session: "work", UID: "u1", Lineage: "lin1", Epoch: 1, State: schemas.Running},
	}
	if b.key, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	if _, b.signer, err = ed25519.GenerateKey(nil); err != nil {
		t.Fatal(err)
	}
	b.moves(t.TempDir())
	return b
}

// moves has another host go on, or the same one with another worker.
func (b *bench) moves(dir string) {
	b.dir = dir
	log := slog.New(slog.DiscardHandler)
	b.spool = New(Options{
		Dir: dir, Host: "h", Objects: b.store, Signer: b.signer, Records: b, Log: log,
		Snapshots: snapshots.New(snapshots.Options{
			Host: "h", Objects: b.store, Signer: b.signer, Log: log, Identities: []age.Identity{b.key}, Recipients: []age.Recipient{b.key.Recipient()},
			Trusted: func(string, string) []ed25519.PublicKey {
				return []ed25519.PublicKey{b.signer.Public().(ed25519.PublicKey)}
			},
		}),
	})
}

// begins has the session come to run, from an image that has the end.
func (b *bench) begins(from *End) {
	b.t.Helper()
	if from == nil {
		b.resumes(nil)
	} else {
		b.resumes(imageWith(*from))
	}
}

// resumes has the session come to run from an image.
func (b *bench) resumes(source driver.Source) {
	b.t.Helper()
	to, release := b.spool.Begin(b.t.Context(), b.record, schemas.Spec{TTY: true, Record: schemas.RecordOutput}, source)
	if to == nil {
		b.t.Fatal("it isn't recorded")
	}
	b.ends()
	b.to, b.last, b.release = to, 0, release
	b.t.Cleanup(release)
}

// ends has nothing more come of the run.
func (b *bench) ends() {
	if b.release != nil {
		b.release()
	}
}

// imageWith is an image with an end.
type imageWith End

func (e imageWith) Entries() []image.Entry { return []image.Entry{{Name: EndEntry}} }

func (e imageWith) Open(string) (io.ReadCloser, error) {
	data, err := json.Marshal(End(e))
	return io.NopCloser(strings.NewReader(string(data))), err
}

// spills spills a segment, as a shim does.
func (b *bench) spills(text string) {
	b.t.Helper()
	b.spillsAll(recording.Event{Time: time.Now(), Code: recording.Output, Data: []byte(text)})
}

// spillsAll spills a segment with events.
func (b *bench) spillsAll(events ...recording.Event) {
	b.t.Helper()
	to, err := b.to.Key.Public()
	if err != nil {
		b.t.Fatal(err)
	}
	b.last++
	f, err := os.Create(segmentFile(b.to.Dir, b.last, ".age"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	w, err := recording.NewWriter(f, to, b.at)
	for _, e := range events {
		if err == nil {
			err = w.Add(e)
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := w.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	data, err := json.Marshal(body)
	if err == nil {
		err = os.WriteFile(segmentFile(b.to.Dir, b.last, ".json"), data, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.at = body.End
}

func (b *bench) stores() *End {
	b.t.Helper()
	end, err := b.spool.Store(b.t.Context(), b.record.UID)
	if err != nil {
		b.t.Fatal(err)
	}
	return end
}

// reads gives the output that was recorded, with gaps as [N].
func (b *bench) reads() string {
	b.t.Helper()
	r, err := b.spool.Open(b.t.Context(), b.record, recording.Part{})
	if err != nil {
		b.t.Fatal(err)
	}
	var out strings.Builder
	err = r.Each(b.t.Context(), time.Time{}, func(e recording.Event) error {
		if e.Code == recording.Gap {
			fmt.Fprintf(&out, "[%s]", e.Data)
		} else {
			out.Write(e.Data)
		}
		return nil
	})
	if err != nil || r.Why() != nil {
		b.t.Fatalf("%v, %v", err, r.Why())
	}
	return out.String()
}

func (b *bench) wants(want string) {
	b.t.Helper()
	if got := b.reads(); got != want {
		b.t.Errorf("recorded is %q, want %q", got, want)
	}
}

// left lists what waits on the host.
func (b *bench) left() []string {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, "*", "*", "0*"))
	if err != nil {
		b.t.Fatal(err)
	}
	return files
}

// A recording goes on through suspends, on other hosts too; what came after a snapshot to which the session is taken back isn't
// part of it.
func TestGoesOn(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one ")
	b.spills("two ")
	snapshot := b.stores()
	b.wants("one two ")
	kept := b.at
	b.spills("lost ")
	b.stores()
	b.wants("one two lost ")
	b.record.Epoch, b.at = 5, kept
	b.begins(snapshot)
	b.wants("one two ") // nothing of this run was stored
	b.moves(t.TempDir())
	b.record.Epoch = 6
	b.begins(snapshot)
	b.spills("three ")
	again := b.stores()
	b.wants("one two three ")
	if again.Key.KID != snapshot.Key.KID {
		t.Error("the key is another one, although the readers are the same")
	}
	b.record.State = schemas.Exited
	b.moves(t.TempDir()) // a host that knows nothing
	b.wants("one two three ")
	if left := b.left(); len(left) > 0 {
		t.Errorf("after all is stored %v wait", left)
	}
}

// A fork has a recording and a key of its own.
func TestFork(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("origin ")
	end := b.stores()
	b.record.UID, b.record.Lineage, b.at = "u2", "lin2", 7
	b.begins(end)
	b.spills("fork")
	if b.stores().Key.KID == end.Key.KID {
		t.Error("a fork has its origin's key")
	}
	b.wants("fork")
}

// A store that fails at any Put, before or after it has stored, and a worker that is killed then: nothing is lost or
// doubled.
func TestFailures(t *testing.T) {
	for _, stored := range []bool{false, true} {
		for n := 1; n <= 4; n++ { // the key, and three segments
			b := newBench(t)
			b.begins(nil)
			for _, text := range []string{"one ", "two ", "three"} {
				b.spills(text)
			}
			b.store.fails = func(string) (bool, bool) { return stored, b.store.puts == n }
			if _, err := b.spool.Store(t.Context(), b.record.UID); !errors.Is(err, errAway) {
				t.Fatalf("put %d fails, the answer is %v", n, err)
			}
			b.moves(b.dir)
			b.stores()
			b.wants("one two three")
			if left := b.left(); len(left) > 0 {
				t.Errorf("%v wait", left)
			}
		}
	}
}

// A worker that is killed between the note that a segment is stored and taking it out doesn't store it again.
func TestKilledBeforeTakingOut(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one ")
	name := segmentFile(b.to.Dir, 1, ".json")
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := os.ReadFile(segmentFile(b.to.Dir, 1, ".age"))
	if err != nil {
		t.Fatal(err)
	}
	b.stores()
	if err := errors.Join(os.WriteFile(name, body, 0o600), os.WriteFile(segmentFile(b.to.Dir, 1, ".age"), sealed, 0o600)); err != nil {
		t.Fatal(err)
	}
	puts := b.store.puts
	b.moves(b.dir)
	b.spills("two")
	b.stores()
	b.wants("one two")
	if b.store.puts != puts+1 || len(b.left()) > 0 {
		t.Errorf("%d segments were stored, %v wait", b.store.puts-puts, b.left())
	}
}

// What the shim had no room for is a gap.
func TestGap(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one ")
	b.stores()
	for _, text := range []string{"two ", "three ", "four"} {
		b.spills(text)
	}
	if err := takeOut(b.to.Dir, 2); err != nil {
		t.Fatal(err)
	}
	b.stores()
	b.wants("one [4]three four")
}

// A disk that gives back something else costs what it had, and keeps no session from being suspended.
func TestDamagedOnDisk(t *testing.T) {
	for _, part := range []string{".json", ".age"} {
		b := newBench(t)
		b.begins(nil)
		for _, text := range []string{"one ", "two ", "three"} {
			b.spills(text)
		}
		if err := os.WriteFile(segmentFile(b.to.Dir, 2, part), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.stores()
		b.wants("one [4]three")
	}
}

// Of a session that is deleted nothing comes into the store, its key least of all; of one whose record is lost all waits.
func TestDeleted(t *testing.T) {
	for _, d := range []struct {
		what string
		get  func(b *bench)
		left bool
	}{
		{"deleted", func(b *bench) { b.record.State = schemas.Deleted }, false},
		{"another of that name", func(b *bench) { b.record.UID = "u9" }, false},
		{"lost", func(b *bench) { b.err = statekv.ErrNoSession }, true},
		{"lost for long", func(b *bench) {
			b.ends()
			long := time.Now().Add(-2 * unknownKept)
			if err := os.Chtimes(b.to.Dir, long, long); err != nil {
				t.Fatal(err)
			}
			b.err = statekv.ErrNoSession
		}, false},
		{"not known", func(b *bench) { b.err = errAway }, true},
	} {
		b := newBench(t)
		b.begins(nil)
		b.spills("secret")
		d.get(b)
		b.spool.oweAll()
		_, err := b.spool.sweep(t.Context())
		if b.store.puts > 0 || (err != nil) != (d.what == "not known") || len(b.left()) > 0 != d.left {
			t.Errorf("%s: %d puts, %v wait, %v", d.what, b.store.puts, b.left(), err)
		}
	}
}

// A session that is deleted while its key is stored has none in the store then.
func TestDeletedMeanwhile(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("secret")
	b.store.fails = func(name string) (bool, bool) {
		b.record.State = schemas.Deleted
		return false, false
	}
	if _, err := b.spool.Store(t.Context(), b.record.UID); !errors.Is(err, errDeleted) {
		t.Errorf("the answer is %v", err)
	}
	err := b.store.List(t.Context(), "", func(i objectstore.Info) error { return errors.New(i.Name) })
	if err != nil {
		t.Errorf("the store has %v", err)
	}
}

// Serve stores what is there, and what comes when it hears of it; a folder goes when nothing more comes of its run.
func TestServe(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one ")
	ctx, stop := context.WithCancel(t.Context())
	stored := make(chan string, 10)
	b.store.fails = func(name string) (bool, bool) {
		if !strings.Contains(name, "/keys/") {
			stored <- name
		}
		return false, false
	}
	ended := make(chan error)
	go func() { ended <- b.spool.Serve(ctx) }()
	<-stored
	b.spills("two")
	notify(t, b.dir)
	<-stored
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	b.wants("one two")
	b.ends()
	b.spool.oweAll()
	if _, err := b.spool.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.to.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a run that is over: %v", err)
	}
}

func notify(t *testing.T, dir string) {
	t.Helper()
	c, err := net.Dial("unixgram", filepath.Join(dir, driver.NoticeSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("u1")); err != nil {
		t.Fatal(err)
	}
}
