package index

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Odd words that aren't there name hardly a block, and those that are there name theirs: in an index that was just made, in one that was
// stored, and in one that went on after that.
func TestFilters(t *testing.T) {
	p := newTape(t)
	id := func(n int) string { return fmt.Sprintf("id%06xz", n) }
	n := 0
	text := func(size int) string {
		var b strings.Builder
		for ; b.Len() < size; n++ {
			fmt.Fprintf(&b, "request %s was served after a while by the worker of the pool\r\n", id(n))
		}
		return b.String()
	}
	for range 9 {
		p.segment(text(100 << 10))
	}
	x := newIndex(t)
	p.feed(x, 0)
	if len(x.filters) != 1 || x.pending.words == nil {
		t.Fatalf("%d filters", len(x.filters))
	}
	looks := func(what string, x *Index) {
		t.Helper()
		named := func(word string) (blocks int) {
			q, err := NewQuery([]string{word})
			if err != nil {
				t.Fatal(err)
			}
			found, err := x.Blocks(q, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			return len(found)
		}
		absent := 0
		for i := range 200 {
			absent += named(id(n + 1000 + i))
		}
		if most := 200 * len(x.blocks) / 50; absent > most {
			t.Errorf("%s: %d of %d blocks are named for 200 words that aren't there", what, absent, 200*len(x.blocks))
		}
		for i := 0; i < n-400; i += 97 { // the last ones are in no block yet
			if named(id(i)) == 0 {
				t.Errorf("%s: no block is named for %s", what, id(i))
			}
		}
	}
	y, _ := again(t, x)
	if len(y.filters) != 2 {
		t.Errorf("stored are %d filters", len(y.filters))
	}
	looks("stored", y)
	before := len(p.segments)
	for range 6 {
		p.segment(text(100 << 10))
	}
	p.feed(y, before)
	if len(y.filters) != 3 {
		t.Errorf("it goes on with %d filters", len(y.filters))
	}
	y, _ = again(t, y)
	looks("stored again", y)
	y.filters = nil
	if q, err := NewQuery([]string{id(1)}); err != nil {
		t.Error(err)
	} else if found, err := y.Blocks(q, time.Time{}); err != nil || len(found) == 0 {
		t.Errorf("without filters, as of a version before: %d blocks, %v", len(found), err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		b := make([]byte, random.IntN(40))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		_, _ = decodeFilters(b)
	}
}

// One of a thousand words that aren't there seems to be, also by a summary.
func TestFewWrong(t *testing.T) {
	p := newTape(t)
	var b strings.Builder
	for n := 0; b.Len() < filterEach+blockBytes; n++ {
		fmt.Fprintf(&b, "request id%06xz took %dms, and was served after a while by the worker of the pool\r\n", n, 1000+n%4000)
	}
	p.segment(b.String())
	x := newIndex(t)
	p.feed(x, 0)
	if len(x.filters) != 1 {
		t.Fatalf("%d filters", len(x.filters))
	}
	const words = 20_000
	filtered, summed := 0, 0
	s := summaryOf(t, x)
	for n := range words {
		hash := oddHash(fmt.Sprintf("other%dx", n))
		if x.filters[0].has(hash) {
			filtered++
		}
		if s.words.has(hash) {
			summed++
		}
	}
	if filtered > words/500 || summed > words/500 {
		t.Errorf("of %d words that aren't there %d seem to be by a filter, %d by the words of a summary", words, filtered, summed)
	}
}

// Filters that were stored before, of other sizes, have what they had.
func TestStoredBefore(t *testing.T) {
	data, err := hex.DecodeString("001221d05815618894410c1e049822ea809222d02112405128b464004c00206181c16c33aa449313")
	if err != nil {
		t.Fatal(err)
	}
	all, err := decodeFilters(data)
	if err != nil || len(all) != 2 || all[1].first != 33 {
		t.Fatalf("%d filters, %v", len(all), err)
	}
	for n := range 16 {
		hash := oddHash(fmt.Sprintf("id%06xz", n))
		if !all[n/8].has(hash) || all[1-n/8].has(hash) {
			t.Errorf("id%06xz seems to be in the other filter, or isn't in its own", n)
		}
	}
}
