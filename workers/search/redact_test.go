package search

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/workers/recordings"
)

// redacts takes something out of a session's recording, by this host.
func (y *yard) redacts(s *taped, expression string) {
	y.t.Helper()
	out, err := y.Recordings.Redact(y.t.Context(), s.SessionRecord, recordings.Wanted{Match: regexp.MustCompile(expression), By: "me"})
	if err != nil || !out.Found() {
		y.t.Fatalf("redacted %+v, %v", out, err)
	}
}

func (y *yard) reads(name string) []byte {
	y.t.Helper()
	r, err := y.store.Get(y.t.Context(), name, 0, -1)
	if err != nil {
		y.t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		y.t.Fatal(err)
	}
	return data
}

func (y *yard) puts(name string, data []byte) {
	y.t.Helper()
	if err := y.store.Put(y.t.Context(), name, bytes.NewReader(data), int64(len(data))); err != nil {
		y.t.Fatal(err)
	}
}

// What was redacted is in no index: not in the store, not in memory, not by another host, and not by one that was stored meanwhile.
func TestRedacted(t *testing.T) {
	y := newYard(t)
	s := y.session("work")
	fill(y, s, 10, "the hunter needle")
	y.types(s, "cat hunter needle", 0, "and more\r\n")
	before := "work#11 commands: cat hunter needle\nwork#6 output: the hunter needle\n"
	y.want(words("needle"), before)
	if err := y.update(t.Context(), s.Name(), false); err != nil {
		t.Fatal(err)
	}
	kept := y.objects(".index-1")
	if len(kept) != 1 {
		t.Fatalf("stored is %q", kept)
	}
	was := y.reads(kept[0])
	far := y.Searcher // of a host that has it in memory
	y.starts(y.key)
	y.want(words("hunter", "needle"), before)

	y.redacts(s, "hunter")
	y.Forget(s.UID)
	if left := y.objects(".index-"); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
	after := strings.ReplaceAll(before, "hunter", "******")
	y.want(words("hunter"), "")
	y.want(words("needle"), after)

	// Another host is told by the store.
	near := y.Searcher
	y.Searcher = far
	y.mu.Lock()
	s.Host = "other"
	s.Version++
	y.mu.Unlock()
	y.want(words("hunter"), "")
	y.want(words("needle"), after)
	y.Searcher = near
	y.mu.Lock()
	s.Host = "h"
	s.Version++
	y.mu.Unlock()

	// One of before counts for nothing, and goes.
	y.puts(kept[0], was)
	y.starts(y.key)
	y.want(words("hunter"), "")
	y.want(words("needle"), after)
	if err := y.update(t.Context(), s.Name(), false); err != nil {
		t.Fatal(err)
	}
	if now := y.objects(".index-1"); len(now) != 1 || bytes.Equal(y.reads(now[0]), was) {
		t.Errorf("stored is %q, as before", now)
	}
	y.starts(y.key)
	y.want(words("needle"), after)
	fill(y, s, 1, "one more")
	y.want(words("needle"), after)
}

// during is a store that has something done before an index is stored.
type during struct {
	objectstore.Store
	do func()
}

func (d *during) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if do := d.do; do != nil && strings.Contains(name, ".index-") {
		d.do = nil
		do()
	}
	return d.Store.Put(ctx, name, r, size)
}

// An index that is stored while its recording is redacted doesn't stay.
func TestRedactedMeanwhile(t *testing.T) {
	y := newYard(t)
	s := y.session("work")
	fill(y, s, 10, "the hunter needle")
	other := newSearcherOf(y)
	y.store.Store = &during{y.store.Store, func() {
		out, err := other.Recordings.Redact(t.Context(), s.SessionRecord, recordings.Wanted{Match: regexp.MustCompile("hunter"), By: "me"})
		if err != nil || !out.Found() {
			t.Errorf("redacted %+v, %v", out, err)
		}
	}}
	if err := y.update(t.Context(), s.Name(), false); err != nil {
		t.Fatal(err)
	}
	if left := y.objects(".index-"); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
	y.Forget(s.UID)
	y.want(words("hunter"), "")
	y.want(words("needle"), "work#6 output: the ****** needle\n")
}

// newSearcherOf gives one more of the host.
func newSearcherOf(y *yard) *Searcher {
	was := y.Searcher
	defer func() { y.Searcher = was }()
	y.starts(y.key)
	return y.Searcher
}
