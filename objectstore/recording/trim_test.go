package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore"
)

// The oldest segments go; what is left is read, and says that something is missing.
func TestTrim(t *testing.T) {
	b := newBench(t)
	var last *Ref
	for i := range 9 {
		ref := b.put(b.run(uint64(1+i/3)), uint64(1+i%3), last, int64(i), out(i, fmt.Sprint(i)))
		last = &ref
	}
	one := int64(0)
	for _, file := range b.segments() {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		one = max(one, info.Size())
	}
	for _, step := range []struct {
		keep        int64
		least, most int // segments that are left: they aren't of quite the same size
	}{{20 * one, 9, 9}, {5 * one, 4, 5}, {0, 1, 1}} {
		if err := new(Room).Trim(t.Context(), b.store, place, step.keep); err != nil {
			t.Fatal(err)
		}
		c := b.follow(nil)
		got := text(b.events(c))
		if len(got) < step.least || len(got) > step.most || !strings.HasSuffix("012345678", got) {
			t.Errorf("of %d bytes %q is left", step.keep, got)
		}
		if len(got) < 9 != errors.Is(c.Why, objectstore.ErrNotFound) {
			t.Errorf("of %q the beginning: %v", got, c.Why)
		}
	}
}

// Of the last segment all objects stay, also while it is written once more: which of them counts isn't known here.
func TestTrimKeepsTheLastInAllVersions(t *testing.T) {
	b := newBench(t)
	first := b.put(b.run(1), 1, nil, 0, out(0, "0"))
	last := b.put(b.run(1), 2, &first, 1, out(1, "1"))
	name := place.Name(last.Run, last.Number)
	for _, tag := range []string{Tag(1, "a"), Tag(2, "b")} {
		if err := putTagged(t.Context(), b.store, tagged(name, tag), []byte("written once more")); err != nil {
			t.Fatal(err)
		}
	}
	if err := new(Room).Trim(t.Context(), b.store, place, 0); err != nil {
		t.Fatal(err)
	}
	left := 0
	err := b.store.List(t.Context(), place.prefix(), func(i objectstore.Info) error {
		if left++; !strings.HasPrefix(i.Name, name) {
			t.Errorf("%s is left", i.Name)
		}
		return nil
	})
	if left != 3 || err != nil {
		t.Errorf("%d objects are left, %v", left, err)
	}
}

// counted is a store that counts how often it is asked.
type counted struct {
	objectstore.Store
	lists, gets int
}

func (c *counted) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	c.gets++
	return c.Store.Get(ctx, name, offset, length)
}

func (c *counted) List(ctx context.Context, prefix string, fn func(objectstore.Info) error) error {
	c.lists++
	return c.Store.List(ctx, prefix, fn)
}

// Who stores a recording lists it only when there may be too much of it, and then makes room for more than one segment.
func TestTrimListsSeldom(t *testing.T) {
	b := newBench(t)
	store, size := &counted{Store: b.store}, int64(0)
	var room Room
	var last *Ref
	const kept, all = 32, 90
	for i := range all {
		ref := b.put(b.run(1), uint64(1+i), last, int64(i), out(i, fmt.Sprint(i%10)))
		last = &ref
		files := b.segments()
		info, err := os.Stat(files[len(files)-1])
		if err != nil {
			t.Fatal(err)
		}
		room.Add(info.Size(), 0)
		size = max(size, info.Size())
		if err := room.Trim(t.Context(), store, place, kept*size); err != nil {
			t.Fatal(err)
		}
		if n := len(b.segments()); n > kept+1 || n < min(i+1, kept-kept/slack-1) {
			t.Fatalf("of %d segments %d are left", i+1, n)
		}
	}
	if most := 1 + 2*(all-kept)*slack/kept; store.lists > most || store.lists < 2 {
		t.Errorf("it is listed %d times, at most %d are enough", store.lists, most)
	}
	// What someone else stored is seen by one who doesn't know the recording.
	var other Room
	if err := other.Trim(t.Context(), store, place, size); err != nil || len(b.segments()) != 1 {
		t.Errorf("%d are left, %v", len(b.segments()), err)
	}
}

// Of the last segment all objects stay: which one counts is for a redaction to say.
func TestTrimKeepsBoth(t *testing.T) {
	b := newBench(t)
	var last *Ref
	for i := range 3 {
		ref := b.put(b.run(1), uint64(1+i), last, int64(i), out(i, fmt.Sprint(i)))
		last = &ref
	}
	for _, n := range []uint64{2, 3} {
		if err := putTagged(t.Context(), b.store, tagged(place.Name(last.Run, n), Tag(1, "x")), []byte("longer than the other one")); err != nil {
			t.Fatal(err)
		}
	}
	if err := new(Room).Trim(t.Context(), b.store, place, 0); err != nil {
		t.Fatal(err)
	}
	var left []string
	err := b.store.List(t.Context(), "", func(i objectstore.Info) error {
		if strings.HasPrefix(i.Name, place.Name(last.Run, 1)[:len(place.Name(last.Run, 1))-1]) {
			left = append(left, i.Name)
		}
		return nil
	})
	name := place.Name(last.Run, 3)
	if want := []string{name, tagged(name, Tag(1, "x"))}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left is %q, %v, want %q", left, err, want)
	}
}
