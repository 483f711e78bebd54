package index

import (
	"slices"
	"time"
)

// Summary says of an index what it can't have, so that the index needn't be open for that. It is valid until the index changes, and for several
// goroutines at a time.
type Summary struct {
	words   filter   // those that are indexed as they are, and all of what is in no filter yet
	typed   filter   // those of commands
	filters []filter // of odd words
	hashed  bool     // words may be indexed by their hashes alone
	partial bool     // some blocks are in no filter
	output  time.Time
	command time.Time
}

// summaryBits is how many bits a word takes in a summary.
const summaryBits = 15

// Summary gives that of the index.
func (x *Index) Summary() (*Summary, error) {
	if err := x.learn(); err != nil {
		return nil, err
	}
	s := &Summary{filters: slices.Clone(x.filters), hashed: x.hashed, output: x.latest}
	s.partial = len(x.blocks) > 0 && x.pending.words == nil && len(x.filters) == 0 || len(x.filters) > 0 && x.filters[0].first > 0
	hashes := make([]uint64, 0, len(x.words)+len(x.pending.words))
	for word := range x.words {
		if !isHash(word) {
			hashes = append(hashes, oddHash(word))
		}
	}
	for hash := range x.pending.words {
		hashes = append(hashes, hash)
	}
	add := func(word string, _ bool) { hashes = append(hashes, oddHash(word)) }
	for _, l := range x.Tail() {
		s.output = later(s.output, l.Time)
		eachWord(fold(l.Text), add)
	}
	s.words = filterOf(hashes)
	hashes = hashes[:0]
	for _, c := range x.commands {
		s.command = later(s.command, c.Began)
		eachWord(fold(c.Text), add)
	}
	s.typed = filterOf(hashes)
	return s, nil
}

// filterOf makes one of the hashes of words.
func filterOf(hashes []uint64) filter {
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	size := len(hashes)*summaryBits/8 + 8
	f := filter{bits: make([]byte, size)}
	for _, hash := range hashes {
		eachBit(hash, size*8, func(at int) { f.bits[at/8] |= 1 << (at % 8) })
	}
	return f
}

// isHash reports whether a word of the index is the hash of one.
func isHash(word string) bool { return len(word) == hashSize && word[0] >= '0' && word[0] <= '2' }

// hashSize is how long the hash of a word is, as fine, middle and coarse give it.
const hashSize = 5

// Size is what the summary takes in memory, about, in bytes.
func (s *Summary) Size() (n int64) {
	n = sizeSummary + int64(len(s.words.bits)+len(s.typed.bits))
	for _, f := range s.filters {
		n += sizeSummary/8 + int64(len(f.bits))
	}
	return n
}

const sizeSummary = 300

// Latest gives no moment before that of the last line and of the last command.
func (s *Summary) Latest() (output, command time.Time) { return s.output, s.command }

// Sought is a query as summaries are asked it.
type Sought struct {
	query      *Query
	plain, odd []uint64
}

// Sought gives the query in that form.
func (q *Query) Sought() *Sought {
	s := &Sought{query: q}
	for _, w := range q.words {
		eachWord(w, func(word string, odd bool) {
			if odd {
				s.odd = append(s.odd, oddHash(word))
			} else {
				s.plain = append(s.plain, oddHash(word))
			}
		})
	}
	return s
}

// MayShow reports whether a line of the output may be one that is looked for.
func (s *Summary) MayShow(q *Sought) bool {
	if s.output.IsZero() || s.output.Before(q.query.Since) {
		return false
	}
	if !s.hashed && !s.words.all(q.plain) {
		return false
	}
	return len(q.odd) == 0 || s.partial || s.words.all(q.odd) || slices.ContainsFunc(s.filters, func(f filter) bool { return f.all(q.odd) })
}

// MayType reports whether a command may be one that is looked for.
func (s *Summary) MayType(q *Sought) bool {
	return !s.command.IsZero() && !s.command.Before(q.query.Since) && s.typed.all(q.plain) && s.typed.all(q.odd)
}

// all reports whether all words may be in a filter.
func (f filter) all(hashes []uint64) bool {
	for _, hash := range hashes {
		if !f.has(hash) {
			return false
		}
	}
	return true
}
