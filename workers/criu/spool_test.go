package criu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/diapause/diapause/objectstore/image"
)

// slow is a sink that begins to take when it is told to.
type slow struct {
	begin chan struct{}
	got   map[string][]byte
	fail  error // in the place of the second image
}

func (s *slow) Add(e image.Entry, r io.Reader) error {
	<-s.begin
	if s.fail != nil && len(s.got) == 1 {
		return s.fail
	}
	b, err := io.ReadAll(r)
	s.got[e.Name] = b
	return err
}

func noise(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(seed, seed))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// stream writes images into pipes, one after the other as criu does, and returns
// what came of each.
func stream(t *testing.T, in *incoming, room int64, images [][]byte) []error {
	t.Helper()
	errs := make([]error, len(images))
	for i, b := range images {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := in.take(fmt.Sprint("pages-", i, ".img"), room, r); err != nil {
			t.Fatal(err)
		}
		_, errs[i] = w.Write(b)
		w.Close()
	}
	return errs
}

func left(s *spool) (held int64, free int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, len(s.free)
}

// What comes out is what went in, with all the room and with none, and nothing of it
// is left in memory. Small images behind large ones don't take the room that these
// need to end.
func TestSpool(t *testing.T) {
	t.Parallel()
	images := [][]byte{noise(1, 5*pieceSize), noise(2, 1), {}, noise(3, pieceSize), noise(4, 3*pieceSize+17)}
	for _, room := range []int64{0, 1, 4 * pieceSize, 1 << 30} {
		s := &slow{begin: make(chan struct{}), got: map[string][]byte{}}
		in := newIncoming(limited(t), s, 1<<40)
		if room < 1<<30 {
			close(s.begin)
		}
		for i, err := range stream(t, in, room, images) {
			if err != nil {
				t.Errorf("room for %d bytes: image %d: %v", room, i, err)
			}
		}
		if room == 1<<30 {
			close(s.begin) // all of it has waited
		}
		held, err := in.done(true)
		if err != nil {
			t.Errorf("room for %d bytes: %v", room, err)
		}
		for i, want := range images {
			if got := s.got[fmt.Sprint("criu/pages-", i, ".img")]; !bytes.Equal(got, want) {
				t.Errorf("room for %d bytes: image %d has %d bytes, want %d, or others", room, i, len(got), len(want))
			}
		}
		if most := max(room, fewPieces*pieceSize); held > most {
			t.Errorf("room for %d bytes: %d were held", room, held)
		}
		if held, free := left(in.spool); held != 0 || free != 0 {
			t.Errorf("room for %d bytes: %d are still held, %d pieces are kept", room, held, free)
		}
	}
}

// A sink that fails breaks the pipes, and nothing stays in memory.
func TestSpoolOfAFailedImage(t *testing.T) {
	t.Parallel()
	failed := errors.New("the store has no room")
	s := &slow{begin: make(chan struct{}), got: map[string][]byte{}, fail: failed}
	close(s.begin)
	in := newIncoming(limited(t), s, 1<<40)
	errs := stream(t, in, 0, [][]byte{noise(1, 10), noise(2, 8*pieceSize), noise(3, 8*pieceSize)})
	if errs[2] == nil {
		t.Error("an image that isn't read could be written")
	}
	if _, err := in.done(false); !errors.Is(err, failed) {
		t.Errorf("error %v, want the sink's", err)
	}
	if held, free := left(in.spool); held != 0 || free != 0 {
		t.Errorf("%d bytes are still held, %d pieces are kept", held, free)
	}
}
