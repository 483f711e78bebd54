package index

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/redact"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// Bounds of a block: output and segments that it spans, and output without text that ends it.
const (
	blockBytes    = 16 << 10
	blockSegments = 16
	blockPause    = 64 << 10
)

// Block is a part of the output whose words are known.
type Block struct {
	From   int64         `json:"f"` // positions in the output
	To     int64         `json:"t"`
	Second bool          `json:"s,omitempty"` // it begins on the second screen
	Began  time.Time     `json:"b"`
	Ended  time.Time     `json:"e"`
	End    recording.Ref `json:"r"`           // the segment in which it ends
	Open   bool          `json:"o,omitempty"` // its last line hadn't ended, and is in the next block once more
}

// Index is what is known of one session. It is for one goroutine at a time.
type Index struct {
	db       *database
	blocks   []Block
	latest   time.Time              // when the last of them ended
	commands []schemas.TypedCommand // by number
	covers   *recording.Ref         // the segment that was read last
	hashed   bool                   // words may be indexed by their hashes alone
	read     int64                  // bytes of output
	plain    int64                  // bytes of the words that are indexed as they are
	texts    int64                  // bytes of the commands' texts
	filters  []filter               // by their first block
	pending  filtering

	transcript *Transcript
	tail       []Stretch           // what came after the last block
	segments   int                 // that the tail spans
	words      map[string]struct{} // that are indexed as they are; nil if that has to be asked
	err        error
}

// New makes one of a recording of which nothing was read yet.
func New() (*Index, error) {
	db, err := newDatabase()
	if err != nil {
		return nil, err
	}
	return &Index{db: db, words: map[string]struct{}{}, transcript: NewTranscript(0, false)}, nil
}

// Close frees it.
func (x *Index) Close() { x.db.close() }

// Covers is the last segment that was read; nil if none was.
func (x *Index) Covers() *recording.Ref { return x.covers }

// At gives from which position in the output on the index wants the events of the segments after that, and of that one as far as they
// are beyond.
func (x *Index) At() int64 {
	from, _ := x.transcript.At()
	return from
}

// Seen gives up to which position in the output the events are known.
func (x *Index) Seen() int64 { return x.transcript.at }

// Err says why nothing can be added any more; nil if it can.
func (x *Index) Err() error { return x.err }

// What a block, a command and a word take besides their texts, about, in bytes.
const (
	sizeBlock   = 300
	sizeCommand = 150
	sizeWord    = 40
	sizeOdd     = 16
	sizeLeast   = 64 << 10
)

// Size is what the index takes in memory, about, in bytes.
func (x *Index) Size() int64 {
	n := sizeLeast + x.db.size() + int64(len(x.blocks))*sizeBlock + int64(len(x.commands))*sizeCommand + x.texts + int64(len(x.words))*sizeWord
	for _, s := range x.tail {
		n += int64(len(s.Text))
	}
	for _, f := range x.filters {
		n += int64(len(f.bits))
	}
	return n + int64(len(x.pending.words))*sizeOdd
}

// Rest frees what only matters while more is added. That is made again then.
func (x *Index) Rest() { x.words = nil }

// Read is how much output was read, in bytes.
func (x *Index) Read() int64 { return x.read }

// Segment has the events come of a segment.
func (x *Index) Segment(s recording.Segment) {
	ref := s.Ref
	ref.Listed = nil
	if x.covers == nil || *x.covers != ref {
		if len(x.tail) > 0 {
			if x.segments++; x.segments > blockSegments {
				x.cut(false)
			}
		}
		x.read += s.Header.End - s.Header.Start
	}
	x.covers = &ref
}

// Event takes the next event of that segment.
func (x *Index) Event(e recording.Event) { x.transcript.Event(e, x.take) }

// take takes the next text.
func (x *Index) take(s Stretch) {
	if n := len(x.tail); n > 0 && (s.From-x.tail[n-1].To > blockPause || s.To-x.tail[0].From > 4*blockBytes) {
		x.cut(false)
	}
	if len(x.tail) == 0 {
		x.segments = 1
	}
	if x.tail = append(x.tail, s); s.To-x.tail[0].From >= blockBytes {
		x.cut(false)
	}
}

// cut makes a block of what came since the last one.
func (x *Index) cut(open bool) {
	if len(x.tail) == 0 || x.err != nil {
		return
	}
	first, last := x.tail[0], x.tail[len(x.tail)-1]
	b := Block{From: first.From, To: last.To, Second: first.Second, Began: first.Time, Ended: last.Time, End: *x.covers, Open: open}
	for _, s := range x.tail { // a clock may have been set back
		b.Began, b.Ended = earlier(b.Began, s.Time), later(b.Ended, s.Time)
	}
	id := int64(len(x.blocks))
	words, odd, err := x.wordsOf(x.tail)
	if err == nil {
		err = x.db.add(id, words)
	}
	if err != nil {
		x.err = err
		return
	}
	x.odd(odd, b)
	x.blocks, x.latest, x.tail, x.segments = append(x.blocks, b), later(x.latest, b.Ended), nil, 0
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Words that are indexed as they are may take this part of the output, and so much always. A block with more strange words than manyStrange
// has them by fewer bits of their hashes: an index of less output than small by the fewest.
const (
	plainPart   = 32
	plainLeast  = 4 << 10
	manyStrange = 500
	small       = 1 << 20
)

// wordsOf gives the words of a block as they are indexed, each once, and of these the odd ones as they are, but for those of secrets.
func (x *Index) wordsOf(text []Stretch) (words string, odds map[string]struct{}, err error) {
	if err := x.learn(); err != nil {
		return "", nil, err
	}
	plain, strange, odds := map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}
	room := int64(plainLeast) + x.read/plainPart
	eachWord(fold(masked(joinedText(text))), func(word string, odd bool) {
		if _, known := x.words[word]; odd || !known && x.plain+int64(len(word)) > room {
			x.hashed = x.hashed || !odd
			strange[word] = struct{}{}
			if odd {
				odds[word] = struct{}{}
			}
			return
		} else if !known {
			word = strings.Clone(word)
			x.words[word] = struct{}{}
			x.plain += int64(len(word))
		}
		plain[word] = struct{}{}
	})
	form := fine
	switch {
	case len(strange) <= manyStrange:
	case x.read < small:
		form = coarse
	default:
		form = middle
	}
	for word := range strange {
		plain[form(word)] = struct{}{}
	}
	return strings.Join(slices.Sorted(maps.Keys(plain)), " "), odds, nil
}

// joinedText gives the text of a block: a secret may have many lines.
func joinedText(text []Stretch) string {
	var b strings.Builder
	for _, s := range text {
		b.WriteString(s.Text)
		if !strings.HasSuffix(s.Text, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// masked gives a text without its secrets. A line that is found is printed as it was recorded: what is recorded is for a policy.
func masked(text string) string { return redact.Masked(text, redact.Secrets) }

// learn asks which words are indexed as they are.
func (x *Index) learn() error {
	if x.words != nil {
		return nil
	}
	words := map[string]struct{}{}
	err := x.db.vocabulary(func(word string) { words[word] = struct{}{} })
	if err == nil {
		x.words = words
	}
	return err
}
