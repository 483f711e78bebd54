package recordings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// fresh is a host on which no session is.
func fresh(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.record, b.err = schemas.SessionRecord{}, statekv.ErrNoSession
	return b
}

var demo = schemas.Name{Tenant: "acme", Session: "demo"}

// takes takes in a recording.
func (b *bench) takes(cast io.Reader) *Import {
	b.t.Helper()
	i, err := b.spool.Imports.Take(b.t.Context(), demo, "criu", cast)
	if err != nil {
		b.t.Fatal(err)
	}
	return i
}

// makes makes the session of what was taken in, as the API does.
func (b *bench) makes(i *Import) {
	b.t.Helper()
	said := b.spool.Imports.Asked(i.UID)
	if said.Name != demo.String() || said.UID != i.UID {
		b.t.Errorf("the host says %+v", said)
	}
	b.record = schemas.SessionRecord{Tenant: "acme", Session: "demo", UID: i.UID, Lineage: string(i.UID), Epoch: 1, State: schemas.Exited}
	b.err = nil
}

// nothing checks that nothing of an import is left.
func (b *bench) nothing(what string) {
	b.t.Helper()
	for _, d := range []string{b.dir} {
		err := filepath.WalkDir(d, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && path != d {
				b.t.Errorf("%s: %s is left", what, path)
			}
			return err
		})
		if err != nil {
			b.t.Error(err)
		}
	}
	err := b.store.List(b.t.Context(), "", func(i objectstore.Info) error {
		b.t.Errorf("%s: %s is left in the store", what, i.Name)
		return nil
	})
	if err != nil {
		b.t.Error(err)
	}
}

const castHead = `{"version":3,"term":{"cols":20,"rows":4},"timestamp":1777863721,"title":"a demo"}` + "\n"

// What was imported is read as any recording: its output, its times, its commands, what it showed last.
func TestImport(t *testing.T) {
	b := fresh(t)
	i := b.takes(strings.NewReader(castHead + `[0.5,"o","\u001b]133;A\u0007$ \u001b]633;E;ls\u0007\u001b]133;C\u0007one\r\n\u001b]133;D;2\u0007"]
[1,"i","q"]
[1,"m","here"]
[0.25,"r","30x5"]
[0,"o","\u001b[2J\u001b[Hlast ü"]
[0,"later",1]
[1,"x","3"]
`))
	if i.Commands != 1 || i.Exit == nil || *i.Exit != 3 || i.Driver != "criu" || i.Title != "a demo" || i.Ended.Sub(i.Began) != 3750*time.Millisecond || !i.Began.Equal(time.Unix(1777863721, 0)) {
		t.Errorf("it says %+v", i.Imported)
	}
	b.makes(i)
	if err := i.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.Close()
	if got := b.spool.Imports.Asked(i.UID); got.UID != "" {
		t.Errorf("it is still said of it %+v", got)
	}
	r, err := b.spool.Open(t.Context(), b.record, recording.Part{})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	err = r.Each(t.Context(), time.Time{}, func(e recording.Event) error {
		data := string(e.Data)
		if e.Code == recording.Frame {
			data, _, _ = strings.Cut(data, "\n")
		}
		fmt.Fprintf(&got, "%v %s %q %d\n", e.Time.Sub(i.Began), e.Code, data, e.At)
		return nil
	})
	if want := `0s r "20x4" 0
500ms o "\x1b]133;A\a$ \x1b]633;E;ls\a\x1b]133;C\aone\r\n\x1b]133;D;2\a" 0
1.5s i "q" 44
2.5s m "here" 44
2.75s r "30x5" 44
2.75s o "\x1b[2J\x1b[Hlast ü" 44
3.75s x "3" 58
3.75s k "30x5" 58
`; err != nil || got.String() != want {
		t.Errorf("it is\n%s, %v; want\n%s", got.String(), err, want)
	}
	if all, _ := b.commands(); all != "1 " {
		t.Errorf("its commands are %q", all)
	}
	if text, _ := b.shown(); text != "last ü" {
		t.Errorf("it shows %q", text)
	}
	kept, err := b.spool.Snapshots.Output(t.Context(), b.record, "")
	if err != nil || !bytes.Contains(kept, []byte("last ü")) {
		t.Errorf("kept is %q, %v", kept, err)
	}
	if _, err := backlog.Decode(kept, 1<<20); err != nil {
		t.Error(err)
	}
	if left := b.left(); len(left) > 0 {
		t.Errorf("%v wait", left)
	}
}

// What is no asciicast, stops, or has nothing in it leaves nothing, and says why.
func TestImportRefused(t *testing.T) {
	for what, c := range map[string]struct {
		cast io.Reader
		want string
	}{
		"an empty file":      {strings.NewReader(""), "the file is empty"},
		"another format":     {strings.NewReader("\x7fELF"), "line 1: no header"},
		"an error in it":     {strings.NewReader(castHead + `[1,"o","a"]` + "\n" + `[-5,"o","b"]`), "line 3:"},
		"no output":          {strings.NewReader(castHead + `[1,"i","a"]`), "no output"},
		"no events":          {strings.NewReader(castHead), "no output"},
		"a client that goes": {io.MultiReader(strings.NewReader(castHead+strings.Repeat(`[1,"o","abc"]`+"\n", 100)), gone{}), "unexpected EOF"},
	} {
		b := fresh(t)
		if _, err := b.spool.Imports.Take(t.Context(), demo, "criu", c.cast); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		b.nothing(what)
	}
}

type gone struct{}

func (gone) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// What no session is made of is removed: at once, or when the API had asked for it and no session came.
func TestImportDropped(t *testing.T) {
	b := fresh(t)
	cast := castHead + `[1,"o","secret"]`
	i := b.takes(strings.NewReader(cast))
	if err := i.Keep(t.Context()); !errors.Is(err, errNoSessionMade) {
		t.Errorf("it is kept: %v", err)
	}
	i.Close()
	b.nothing("without a session")

	i = b.takes(strings.NewReader(cast))
	b.spool.Imports.Asked(i.UID)
	i.Close()
	b.settles(i.UID) // its record may be on the way
	if _, err := os.Stat(i.dir); err != nil {
		t.Errorf("asked for, it is gone: %v", err)
	}
	past := time.Now().Add(-2 * importKept)
	if err := os.Chtimes(i.dir, past, past); err != nil {
		t.Fatal(err)
	}
	b.settles(i.UID)
	b.nothing("after long")
	for range importsAtOnce { // all places are free
		defer b.takes(strings.NewReader(cast)).Close()
	}
	if _, err := b.spool.Imports.Take(t.Context(), demo, "criu", strings.NewReader(cast)); err == nil || !strings.Contains(err.Error(), "is taking in") {
		t.Errorf("one more is taken in: %v", err)
	}
}

func (b *bench) settles(uid schemas.UID) {
	b.t.Helper()
	if err := b.spool.sweepSession(b.t.Context(), uid); err != nil {
		b.t.Fatal(err)
	}
}

// A host that dies between the record and Keep stores the recording when it is back; one that dies before removes it.
func TestImportCrashes(t *testing.T) {
	b := fresh(t)
	i := b.takes(strings.NewReader(castHead + `[1,"o","one"]`))
	b.makes(i)
	i.lock.Close() // with the process
	b.moves(b.dir)
	b.settles(i.UID)
	b.wantsOutput("one")

	b = fresh(t)
	i = b.takes(strings.NewReader(castHead + `[1,"o","one"]`))
	i.lock.Close()
	if err := os.Rename(i.dir, i.dir+".new"); err != nil { // earlier still
		t.Fatal(err)
	}
	b.moves(b.dir)
	b.settles(i.UID)
	b.nothing("a crash")

	b = fresh(t)
	i = b.takes(strings.NewReader(castHead + `[1,"o","one"]`))
	b.settles(i.UID) // it is under way
	b.makes(i)
	b.store.lost = errAway
	if err := i.Keep(t.Context()); err != nil {
		t.Errorf("without a store it isn't kept: %v", err)
	}
	b.store.lost = nil
	b.settles(i.UID)
	b.wantsOutput("one")
}

// wantsOutput compares the output alone.
func (b *bench) wantsOutput(want string) {
	b.t.Helper()
	r, err := b.spool.Open(b.t.Context(), b.record, recording.Part{})
	if err != nil {
		b.t.Fatal(err)
	}
	var out strings.Builder
	err = r.Each(b.t.Context(), time.Time{}, func(e recording.Event) error {
		if e.Code == recording.Output {
			out.Write(e.Data)
		}
		return nil
	})
	if err != nil || out.String() != want {
		b.t.Errorf("its output is %q, %v; want %q", out.String(), err, want)
	}
}

// long is an asciicast of so many bytes that is made while it is read.
type long struct {
	left int64
	n    int
	rest []byte
}

func (l *long) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.left <= 0 {
			return 0, io.EOF
		}
		l.n++
		l.rest = fmt.Appendf(nil, `[0.001,"o","\u001b]633;E;c%d\u0007\u001b]633;C\u0007%s%d\r\n\u001b]633;D;0\u0007"]`+"\n", l.n, strings.Repeat("a line of output ", 200), l.n)
	}
	n := copy(p, l.rest)
	l.rest, l.left = l.rest[n:], l.left-int64(n)
	return n, nil
}

// A large recording is taken in with bounded memory, in segments of which each can be read first, and no command is lost.
func TestImportLarge(t *testing.T) {
	size := int64(48 << 20)
	if os.Getenv("DIAPAUSE_LONG") != "" {
		size = 1 << 30
	}
	b := fresh(t)
	l := &long{left: size}
	peak := make(chan uint64)
	ctx, stop := context.WithCancel(t.Context())
	go func() { peak <- highest(ctx) }()
	i := b.takes(io.MultiReader(strings.NewReader(castHead), l))
	stop()
	if most := <-peak; most > 160<<20 {
		t.Errorf("it took %d MB of memory", most>>20)
	}
	if i.Commands != int64(l.n) {
		t.Errorf("it has %d commands, not %d", i.Commands, l.n)
	}
	b.makes(i)
	if err := i.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.settles(i.UID)
	all, bad := b.commands()
	if n := strings.Count(all, " "); n != l.n || bad > 0 || strings.Contains(all, "r") {
		t.Errorf("%d commands are listed, not %d; %d lists can't be read", n, l.n, bad)
	}
	r, err := b.spool.Open(t.Context(), b.record, recording.Part{})
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(len(r.chain.Segments)); n < size/(3*takenData) {
		t.Errorf("it has %d segments", n)
	}
	before := b.store.bodies
	enough := errors.New("enough")
	found, err := r.From(t.Context(), i.Ended.Add(-time.Millisecond), func(recording.Event) error { return enough })
	if !found || !errors.Is(err, enough) || b.store.bodies-before > 4 {
		t.Errorf("a seek reads %d segments: %t, %v", b.store.bodies-before, found, err)
	}
}

// highest gives the most memory in use until ctx ends.
func highest(ctx context.Context) (most uint64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
		select {
		case <-ctx.Done():
			return most
		case <-tick.C:
		}
	}
}

// Marks without an end are bounded: what has no room is counted.
func TestImportFloodOfMarks(t *testing.T) {
	b := fresh(t)
	flood := strings.Repeat(`\u001b]633;E;x\u0007\u001b]633;C\u0007\u001b]633;D;0\u0007`, 100_000)
	i := b.takes(strings.NewReader(castHead + `[1,"o","` + flood + `"]` + "\n" + `[1,"o","after"]`))
	b.makes(i)
	if err := i.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := b.spool.Commands(t.Context(), b.record)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = all.Each(t.Context(), func(schemas.TypedCommand) error { n++; return nil })
	if dropped, bad, _ := all.Missing(); err != nil || n == 0 || n+dropped != 100_000 || bad > 0 {
		t.Errorf("%d commands, %d dropped, %d lists can't be read, %v", n, dropped, bad, err)
	}
}
