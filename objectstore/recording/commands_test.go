package recording

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// putListed stores a segment with commands.
func (b *bench) putListed(number uint64, previous *Ref, start int64, entries ...[]byte) Ref {
	b.t.Helper()
	to, err := b.key.Public()
	if err != nil {
		b.t.Fatal(err)
	}
	var sealed bytes.Buffer
	w, err := NewWriter(&sealed, to, start)
	if err == nil {
		err = w.Add(out(int(start), "output"))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := w.Close()
	if err != nil {
		b.t.Fatal(err)
	}
	var list []byte
	if len(entries) > 0 {
		var l List
		if list, l, err = SealList(entries, 1, to); err != nil {
			b.t.Fatal(err)
		}
		body.List = &l
	}
	clear, ref, err := Header{UID: place.UID, Run: b.run(1), Number: number, Previous: previous, Signer: "h", Body: body}.Seal(signer())
	if err == nil && list != nil {
		err = PutList(b.t.Context(), b.store, place, ref, append(bytes.Clone(clear), list...))
	}
	if err == nil {
		err = Put(b.t.Context(), b.store, place, ref, append(clear, sealed.Bytes()...))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return ref
}

func entry(t *testing.T, n int64) []byte {
	t.Helper()
	b, err := Entry(schemas.TypedCommand{Number: n, Text: fmt.Sprintf("command-%d", n), Began: time.Unix(n, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) keyOf(ctx context.Context, run string) (age.Identity, error) {
	_, kid, _ := SplitRun(run)
	return image.UnwrapKey(ctx, b.store, place.Tenant, place.Lineage, kid, []age.Identity{b.reader})
}

func (b *bench) lists(end *Ref) (text string, dropped int, wrong error) {
	b.t.Helper()
	all := FollowLists(b.store, place, end, nil)
	for {
		commands, n, err := all.Next(b.t.Context(), b.keyOf)
		if errors.Is(err, io.EOF) {
			return text, dropped, wrong
		}
		wrong, dropped = errors.Join(wrong, err), dropped+n
		for _, c := range commands {
			text += c.Text + " "
		}
	}
}

// The oldest lists go when they take more than their part of what is kept: that is the end, and no error.
func TestTrimLists(t *testing.T) {
	b := newBench(t)
	var last *Ref
	for i := range 7 { // of which there is room for four or five
		n := int64(i + 1)
		ref := b.putListed(uint64(n), last, 6*int64(i), entry(t, n), noise(t, 150<<10))
		last = &ref
	}
	for range 2 {
		if err := new(Room).Trim(t.Context(), b.store, place, 4*listLeast); err != nil {
			t.Fatal(err)
		}
	}
	all := FollowLists(b.store, place, last, nil)
	for want := int64(7); ; want-- {
		list, _, err := all.Next(t.Context(), b.keyOf)
		if errors.Is(err, io.EOF) && (want == 2 || want == 3) && all.Shortened() {
			break
		}
		if err != nil || len(list) != 1 || list[0].Number != want {
			t.Fatalf("instead of list %d: %v, %v", want, list, err)
		}
	}
	if got := len(b.segments()); got < 7 {
		t.Errorf("%d segments are left", got)
	}
}

// Where a host in between knew no lists, nothing names those before: they are found all the same, and one who has none looks at no segment.
func TestListsBeforeAnOlderVersion(t *testing.T) {
	b := newBench(t)
	store := &counted{Store: b.store}
	forget := func(r Ref) *Ref { // as such a version does
		r.Listed = nil
		return &r
	}
	first := b.putListed(1, nil, 0)
	second := b.putListed(2, &first, 6)
	read := func(end *Ref) (text string) {
		t.Helper()
		all := FollowLists(store, place, end, nil)
		for {
			list, _, err := all.Next(t.Context(), b.keyOf)
			if errors.Is(err, io.EOF) {
				return text
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range list {
				text += c.Text + " "
			}
		}
	}
	if got := read(&second); got != "" || store.gets != 0 || store.lists != 1 {
		t.Errorf("before there is one they are %q, and %d segments were looked at", got, store.gets)
	}
	three := b.putListed(3, &second, 12, entry(t, 1))
	four := b.putListed(4, forget(three), 18)
	five := b.putListed(5, forget(four), 24)
	if got := read(forget(five)); got != "command-1 " {
		t.Errorf("on the older host they are %q", got)
	}
	six := b.putListed(6, forget(five), 30, entry(t, 2))
	seven := b.putListed(7, &six, 36)
	store.lists = 0
	if got := read(&seven); got != "command-2 command-1 " || store.lists != 1 {
		t.Errorf("after it they are %q, and the recording was listed %d times", got, store.lists)
	}
	if err := b.store.Delete(t.Context(), place.Name(four.Run, four.Number)); err != nil {
		t.Fatal(err)
	}
	if got := read(&seven); got != "command-2 " {
		t.Errorf("where the segments between were deleted they are %q", got)
	}
}

// noise is what can't be compressed.
func noise(t *testing.T, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return append([]byte(base64.StdEncoding.EncodeToString(b)), '\n')
}

// Commands stay when segments are deleted for room, with others between them, and a list that is damaged hides no other.
func TestLists(t *testing.T) {
	b := newBench(t)
	one := b.putListed(1, nil, 0, entry(t, 1), entry(t, 2))
	two := b.putListed(2, &one, 6)
	three := b.putListed(3, &two, 12, []byte("no entry\n"), entry(t, 3))
	four := b.putListed(4, &three, 18)
	five := b.putListed(5, &four, 24, entry(t, 4))
	if err := new(Room).Trim(t.Context(), b.store, place, 1); err != nil {
		t.Fatal(err)
	}
	const all = "command-4 command-3 command-1 command-2 "
	if got, dropped, err := b.lists(&five); got != all || dropped != 4 || err != nil {
		t.Errorf("they are %q, %d dropped, %v", got, dropped, err)
	}
	if got, _, _ := b.lists(&four); got != "command-3 command-1 command-2 " {
		t.Errorf("from the fourth they are %q", got)
	}
	tip, _, err := Tip(t.Context(), b.store, place, trusts)
	if err != nil || tip == nil || tip.Number != 5 {
		t.Fatalf("the end is %+v, %v", tip, err)
	}
	if got, _, _ := b.lists(&tip.Ref); got != all {
		t.Errorf("from the end that is found they are %q", got)
	}
	file := filepath.Join(b.root, filepath.FromSlash(place.ListName(b.run(1), 3)))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 7 {
		if err := os.WriteFile(file, append(append(bytes.Clone(data[:i]), data[i]^1), data[i+1:]...), 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := b.lists(&five)
		inHead := bytes.IndexByte(data, '{') <= i && bytes.Count(data[:i], []byte("\n")) < 2
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForged) && bytes.Count(data[:i], []byte("\n")) != 2 {
			t.Fatalf("with byte %d changed: %q, %v", i, got, err)
		}
		if want := "command-4 command-1 command-2 "; err != nil && !inHead && bytes.Count(data[:i], []byte("\n")) > 2 && got != want {
			t.Fatalf("with byte %d changed they are %q", i, got)
		}
	}
	if err := PutList(t.Context(), b.store, place, five, []byte("another")); !errors.Is(err, ErrCorrupt) && err != nil {
		t.Errorf("stored again: %v", err)
	}
}
