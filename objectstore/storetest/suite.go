package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/diapause/diapause/objectstore"
)

// Run holds the store that open returns to the port's contract. It calls open
// once; the store may hold objects already.
func Run(t *testing.T, open func(t *testing.T) objectstore.Store) {
	store := open(t)
	cases := []struct {
		name string
		run  func(*suite)
	}{
		{"RoundTrip", (*suite).roundTrip},
		{"NoOverwrite", (*suite).noOverwrite},
		{"RacingWriters", (*suite).racingWriters},
		{"Ranges", (*suite).ranges},
		{"Missing", (*suite).missing},
		{"Delete", (*suite).delete},
		{"DeleteWhileReading", (*suite).deleteWhileReading},
		{"List", (*suite).list},
		{"ListStops", (*suite).listStops},
		{"ListUnderLoad", (*suite).listUnderLoad},
		{"ListMany", (*suite).listMany},
		{"PutBesideDelete", (*suite).putBesideDelete},
		{"ReaderFails", (*suite).readerFails},
		{"WrongSize", (*suite).wrongSize},
		{"Cancelled", (*suite).cancelled},
		{"Names", (*suite).names},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.run(&suite{T: t, store: store, prefix: "storetest-" + rand.Text() + "/"})
		})
	}
}

type suite struct {
	*testing.T
	store  objectstore.Store
	prefix string
}

func (s *suite) put(name string, data []byte) error {
	return s.store.Put(s.Context(), s.prefix+name, bytes.NewReader(data), int64(len(data)))
}

func (s *suite) mustPut(name string, data []byte) {
	s.Helper()
	if err := s.put(name, data); err != nil {
		s.Fatalf("put: %v", err)
	}
}

func (s *suite) get(name string, offset, length int64) ([]byte, error) {
	r, err := s.store.Get(s.Context(), s.prefix+name, offset, length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (s *suite) wantContent(name string, want []byte) {
	s.Helper()
	got, err := s.get(name, 0, -1)
	if err != nil {
		s.Fatalf("get %s: %v", name, err)
	}
	if !bytes.Equal(got, want) {
		s.Fatalf("get %s: %d bytes, which are not the %d that were put", name, len(got), len(want))
	}
}

func (s *suite) wantNothing(name string) {
	s.Helper()
	if _, err := s.get(name, 0, -1); !errors.Is(err, objectstore.ErrNotFound) {
		s.Fatalf("get %s: error %v, want ErrNotFound", name, err)
	}
	if names := s.listed(s.prefix + name); len(names) != 0 {
		s.Fatalf("list: %v, want nothing", names)
	}
}

// listed gives the names under a full prefix, sorted, without the suite's own.
func (s *suite) listed(prefix string) []string {
	s.Helper()
	var names []string
	err := s.store.List(s.Context(), prefix, func(i objectstore.Info) error {
		names = append(names, strings.TrimPrefix(i.Name, s.prefix))
		return nil
	})
	if err != nil {
		s.Fatalf("list: %v", err)
	}
	slices.Sort(names)
	return names
}

func content(size int) []byte {
	data := make([]byte, size)
	rand.Read(data)
	return data
}

func (s *suite) roundTrip() {
	for _, size := range []int{0, 1, 4096, 1<<20 + 7} {
		name := fmt.Sprintf("a/b.c/size_%d", size)
		data := content(size)
		s.mustPut(name, data)
		s.wantContent(name, data)
	}
}

func (s *suite) noOverwrite() {
	first := content(100)
	s.mustPut("x", first)
	if err := s.put("x", content(100)); !errors.Is(err, objectstore.ErrExists) {
		s.Fatalf("second put: error %v, want ErrExists", err)
	}
	s.wantContent("x", first)
}

// racingWriters lets many writers put one name, round after round.
func (s *suite) racingWriters() {
	for round := range 10 {
		name := fmt.Sprintf("race/%d", round)
		const writers = 8
		var contents [writers][]byte
		var errs [writers]error
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range writers {
			contents[i] = content(10_000 + i)
			wg.Go(func() {
				<-start
				errs[i] = s.put(name, contents[i])
			})
		}
		close(start)
		wg.Wait()
		s.wantContent(name, contents[s.winner(errs[:])])
	}
}

func (s *suite) winner(errs []error) int {
	s.Helper()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			s.Fatal("two writers of one name succeeded")
		case err == nil:
			winner = i
		case !errors.Is(err, objectstore.ErrExists):
			s.Fatalf("loser: error %v, want ErrExists", err)
		}
	}
	if winner < 0 {
		s.Fatal("no writer succeeded")
	}
	return winner
}

func (s *suite) ranges() {
	data := content(10_000)
	s.mustPut("x", data)
	for _, c := range []struct{ offset, length, from, to int64 }{
		{0, -1, 0, 10_000}, {0, 10, 0, 10}, {5000, -1, 5000, 10_000}, {5000, 100, 5000, 5100},
		{9999, 1, 9999, 10_000}, {9990, 100, 9990, 10_000}, {0, 20_000, 0, 10_000},
		{10_000, -1, 0, 0}, {10_000, 5, 0, 0}, {20_000, 5, 0, 0}, {20_000, -1, 0, 0}, {5, 0, 0, 0},
	} {
		got, err := s.get("x", c.offset, c.length)
		if err != nil || !bytes.Equal(got, data[c.from:c.to]) {
			s.Errorf("range %d+%d: %d bytes, error %v, want bytes %d to %d", c.offset, c.length, len(got), err, c.from, c.to)
		}
	}
	for _, c := range [][2]int64{{-1, 5}, {0, -2}} {
		if _, err := s.get("x", c[0], c[1]); !errors.Is(err, objectstore.ErrRange) {
			s.Errorf("range %d+%d: error %v, want ErrRange", c[0], c[1], err)
		}
	}
}

func (s *suite) missing() {
	s.wantNothing("nothing/here")
	s.mustPut("dir/file", content(10))
	for _, name := range []string{"dir", "dir/file/below", "dir/fil"} {
		if _, err := s.get(name, 0, -1); !errors.Is(err, objectstore.ErrNotFound) {
			s.Errorf("get %s: error %v, want ErrNotFound", name, err)
		}
	}
}

func (s *suite) delete() {
	s.mustPut("a/x", content(10))
	s.mustPut("a/y", content(10))
	for range 2 {
		if err := s.store.Delete(s.Context(), s.prefix+"a/x"); err != nil {
			s.Fatalf("delete: %v", err)
		}
		s.wantNothing("a/x")
	}
	if err := s.store.Delete(s.Context(), s.prefix+"a"); err != nil {
		s.Fatalf("delete of a name's beginning: %v", err)
	}
	if got := s.listed(s.prefix); !slices.Equal(got, []string{"a/y"}) {
		s.Fatalf("left: %v, want a/y", got)
	}
	again := content(20)
	s.mustPut("a/x", again)
	s.wantContent("a/x", again)
}

func (s *suite) deleteWhileReading() {
	data := content(1 << 20)
	s.mustPut("x", data)
	r, err := s.store.Get(s.Context(), s.prefix+"x", 0, -1)
	if err != nil {
		s.Fatal(err)
	}
	defer r.Close()
	if err := s.store.Delete(s.Context(), s.prefix+"x"); err != nil {
		s.Fatal(err)
	}
	if got, err := io.ReadAll(r); err == nil && !bytes.Equal(got, data) {
		s.Fatalf("read %d bytes without error, which are not the object", len(got))
	}
}

func (s *suite) list() {
	all := []string{"a", "ab/c", "ab/d/e", "abc", "b"}
	for i, name := range all {
		s.mustPut(name, content(i+1))
	}
	for prefix, want := range map[string][]string{
		"": all, "a": all[:4], "ab": all[1:4], "ab/": all[1:3], "ab/d": all[2:3], "ab/d/e": all[2:3],
		"b": all[4:], "c": nil, "ab/c/": nil, "x/y": nil,
	} {
		if got := s.listed(s.prefix + prefix); !slices.Equal(got, want) {
			s.Errorf("list %q: %v, want %v", prefix, got, want)
		}
	}
	err := s.store.List(s.Context(), s.prefix+"abc", func(i objectstore.Info) error {
		if i.Size != 4 || i.ModTime.IsZero() {
			s.Errorf("info %+v: want size 4 and a time", i)
		}
		return nil
	})
	if err != nil {
		s.Error(err)
	}
}

func (s *suite) listStops() {
	for i := range 3 {
		s.mustPut(fmt.Sprint(i), nil)
	}
	stop := errors.New("enough")
	calls := 0
	err := s.store.List(s.Context(), s.prefix, func(objectstore.Info) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		s.Fatalf("list: error %v after %d calls, want the callback's after 1", err, calls)
	}
}

// listUnderLoad lists while other objects come and go: those that stay must be
// listed once each, whole.
func (s *suite) listUnderLoad() {
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("%02d/stays", i)
		s.mustPut(name, content(100))
		want = append(want, name)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := 0; !done.Load(); i++ {
				name := fmt.Sprintf("%02d/goes-%d", i%20, w)
				if err := s.put(name, content(100)); err != nil {
					s.Errorf("put: %v", err)
				}
				if err := s.store.Delete(s.Context(), s.prefix+name); err != nil {
					s.Errorf("delete: %v", err)
				}
			}
		})
	}
	for range 30 {
		got := slices.DeleteFunc(s.listed(s.prefix), func(n string) bool { return !strings.HasSuffix(n, "/stays") })
		if !slices.Equal(got, want) {
			s.Errorf("list: %d of %d: %v", len(got), len(want), got)
			break
		}
	}
	done.Store(true)
	wg.Wait()
}

// listMany lists more objects than servers give in one answer.
func (s *suite) listMany() {
	const writers = 16
	objects := 2_500 // a page of a list has a thousand
	if os.Getenv("DIAPAUSE_LONG") != "" {
		objects = 10_000
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < objects; i += writers {
				if err := s.put(fmt.Sprintf("many/%02d/%05d", i%20, i), []byte("x")); err != nil {
					s.Errorf("put: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	got := s.listed(s.prefix + "many/")
	if unique := slices.Compact(slices.Clone(got)); len(got) != objects || len(unique) != objects {
		s.Errorf("list: %d objects, %d different ones, want %d", len(got), len(unique), objects)
	}
	if got := s.listed(s.prefix + "many/07/"); len(got) != objects/20 {
		s.Errorf("list one of 20: %d objects, want %d", len(got), objects/20)
	}
}

// putBesideDelete deletes the last neighbour while an object is put beside it.
func (s *suite) putBesideDelete() {
	for i := range 50 {
		neighbour, name := fmt.Sprintf("d%d/e/a", i), fmt.Sprintf("d%d/e/b", i)
		s.mustPut(neighbour, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := s.store.Delete(s.Context(), s.prefix+neighbour); err != nil {
				s.Errorf("delete: %v", err)
			}
		})
		s.mustPut(name, []byte("here"))
		wg.Wait()
		s.wantContent(name, []byte("here"))
	}
}

func (s *suite) readerFails() {
	broken := errors.New("source broke")
	for _, size := range []int{0, 1000, 100_000} {
		r := io.MultiReader(bytes.NewReader(content(size)), errReader{broken})
		err := s.store.Put(s.Context(), s.prefix+"x", r, int64(size)+1)
		if !errors.Is(err, broken) {
			s.Fatalf("put: error %v, want the reader's", err)
		}
		s.wantNothing("x")
	}
	s.mustPut("x", []byte("after"))
	s.wantContent("x", []byte("after"))
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func (s *suite) wrongSize() {
	for _, size := range []int64{-1, 0, 999, 1001} {
		err := s.store.Put(s.Context(), s.prefix+"x", bytes.NewReader(content(1000)), size)
		if !errors.Is(err, objectstore.ErrSize) {
			s.Errorf("put 1000 bytes as %d: error %v, want ErrSize", size, err)
		}
		s.wantNothing("x")
	}
}

func (s *suite) cancelled() {
	ctx, cancel := context.WithCancel(s.Context())
	r := io.MultiReader(bytes.NewReader(content(1000)), cancelReader{cancel}, bytes.NewReader(content(1000)))
	if err := s.store.Put(ctx, s.prefix+"x", r, 2000); !errors.Is(err, context.Canceled) {
		s.Fatalf("put: error %v, want context.Canceled", err)
	}
	s.wantNothing("x")
}

// cancelReader cancels when it is reached, and is empty.
type cancelReader struct{ cancel context.CancelFunc }

func (r cancelReader) Read([]byte) (int, error) { r.cancel(); return 0, io.EOF }

func (s *suite) names() {
	for _, name := range []string{"", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/.b", "a b", "a\x00", "é", "a\\b",
		strings.Repeat("x", 201), strings.Repeat("x/", 600) + "x"} {
		if err := s.store.Put(s.Context(), name, strings.NewReader("x"), 1); !errors.Is(err, objectstore.ErrName) {
			s.Errorf("put %.20q: error %v, want ErrName", name, err)
		}
		if _, err := s.store.Get(s.Context(), name, 0, -1); !errors.Is(err, objectstore.ErrName) {
			s.Errorf("get %.20q: error %v, want ErrName", name, err)
		}
		if err := s.store.Delete(s.Context(), name); !errors.Is(err, objectstore.ErrName) {
			s.Errorf("delete %.20q: error %v, want ErrName", name, err)
		}
	}
}
