// Package backlog keeps the last part of what a command wrote, in memory, and
// lets any number of readers follow it, each at its own pace.
//
// Append adds what was read from a pipe or a terminal; a reader calls Next with the
// position that the last Next gave it. Positions count bytes since the command was
// started, and go on across suspends: Encode and Decode carry a Log through an image.
// It never writes to a disk.
package backlog

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"sync"
)

// Stream says where a piece came from.
type Stream byte

// The streams of a command.
const (
	Out Stream = 1 // standard output, or the terminal
	Err Stream = 2 // standard error
)

type piece struct {
	stream Stream
	data   []byte
}

// maxPiece bounds what Next returns at a time.
const maxPiece = 32 << 10

// Log is the backlog of one command.
type Log struct {
	size int

	mu      sync.Mutex
	pieces  []piece
	start   int64 // position of the first byte held
	end     int64
	ended   bool
	holder  int64         // position of a reader that must not miss anything, or none
	changed chan struct{} // closed at the next change
}

const none = -1

// New makes a Log that holds about the last size bytes.
func New(size int) *Log { return &Log{size: size, holder: none, changed: make(chan struct{})} }

// Append adds a copy of p.
func (l *Log) Append(s Stream, p []byte) {
	if len(p) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(s, p)
	l.signal()
}

func (l *Log) append(s Stream, p []byte) {
	l.end += int64(len(p))
	if n := len(l.pieces); n > 0 && l.pieces[n-1].stream == s && len(l.pieces[n-1].data)+len(p) <= maxPiece {
		l.pieces[n-1].data = append(l.pieces[n-1].data, p...)
	} else {
		l.pieces = append(l.pieces, piece{s, append([]byte(nil), p...)})
	}
	for len(l.pieces) > 1 && l.end-l.start-int64(len(l.pieces[0].data)) >= int64(l.size) {
		l.start += int64(len(l.pieces[0].data))
		l.pieces[0].data = nil
		l.pieces = l.pieces[1:]
	}
}

func (l *Log) signal() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// End says that nothing will follow.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		l.signal()
	}
}

// Hold says that a reader has got as far as position and must not miss what
// follows: Room waits for it. There is one such reader at a time.
func (l *Log) Hold(position int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = position
	l.signal()
}

// Release ends what Hold began.
func (l *Log) Release() { l.Hold(none) }

// Room waits until more can be appended without taking anything from the reader
// that holds the Log.
func (l *Log) Room() {
	for {
		l.mu.Lock()
		free := l.ended || l.holder == none || l.end-l.holder < int64(l.size)/2
		wait := l.changed
		l.mu.Unlock()
		if free {
			return
		}
		<-wait
	}
}

// Span gives the positions of the first byte held and of the end.
func (l *Log) Span() (start, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start, l.end
}

// Tail gives a position n bytes before the end, or the first one held.
func (l *Log) Tail(n int64) int64 {
	start, end := l.Span()
	return max(start, end-n)
}

// Next waits for what follows position from and returns one piece of it, with
// the position after it. What is no longer held is passed over. After the end
// it returns io.EOF.
func (l *Log) Next(ctx context.Context, from int64) (Stream, []byte, int64, error) {
	for {
		s, data, next, wait, err := l.take(from)
		if err != nil || data != nil {
			return s, data, next, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return 0, nil, from, ctx.Err()
		}
	}
}

func (l *Log) take(from int64) (Stream, []byte, int64, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.start
	from = max(from, at)
	for _, p := range l.pieces {
		if size := int64(len(p.data)); from >= at+size {
			at += size
			continue
		}
		data := append([]byte(nil), p.data[from-at:]...)
		return p.stream, data, from + int64(len(data)), nil, nil
	}
	if l.ended {
		return 0, nil, from, nil, io.EOF
	}
	return 0, nil, from, l.changed, nil
}

// Change calls fn with the pieces that are held, the oldest first. It may change their bytes, and nothing else.
func (l *Log) Change(fn func(pieces iter.Seq2[Stream, []byte])) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn(func(yield func(Stream, []byte) bool) {
		for _, p := range l.pieces {
			if !yield(p.stream, p.data) {
				return
			}
		}
	})
}

// Encode writes what is held, for Decode.
func (l *Log) Encode() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := binary.BigEndian.AppendUint64(nil, uint64(l.start))
	for _, p := range l.pieces {
		b = append(b, byte(p.stream))
		b = binary.BigEndian.AppendUint32(b, uint32(len(p.data)))
		b = append(b, p.data...)
	}
	return b
}

var errDecode = errors.New("decode output: it is damaged")

// Decode makes the Log that Encode wrote, to hold size bytes from now on.
func Decode(b []byte, size int) (*Log, error) {
	l := New(size)
	if len(b) < 8 {
		return nil, errDecode
	}
	l.start = int64(binary.BigEndian.Uint64(b))
	l.end = l.start
	for b = b[8:]; len(b) > 0; {
		if len(b) < 5 {
			return nil, errDecode
		}
		s, n := Stream(b[0]), binary.BigEndian.Uint32(b[1:])
		if b = b[5:]; s != Out && s != Err || uint64(n) > uint64(len(b)) {
			return nil, errDecode
		}
		l.append(s, b[:n])
		b = b[n:]
	}
	return l, nil
}

// Last gives the end of an encoded log, in at most that many bytes, without the oldest pieces:
// of one that is damaged nothing.
func Last(b []byte, most int) []byte {
	if len(b) <= most || len(b) < 8 {
		return b
	}
	start, rest := binary.BigEndian.Uint64(b), b[8:]
	for 8+len(rest) > most {
		if len(rest) < 5 {
			return nil
		}
		n := binary.BigEndian.Uint32(rest[1:])
		if rest = rest[5:]; uint64(n) > uint64(len(rest)) {
			return nil
		}
		start, rest = start+uint64(n), rest[n:]
	}
	return append(binary.BigEndian.AppendUint64(nil, start), rest...)
}
