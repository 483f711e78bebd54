package recording

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// Writer compresses and encrypts the events of one segment. What it writes is durable nowhere
// before Close has returned and its own reader's data is.
type Writer struct {
	to     counter
	sealed io.WriteCloser
	packed *zstd.Encoder
	line   bytes.Buffer

	body  Body
	last  time.Time
	carry []byte // the beginning of a character
	of    Code   // whose it is
}

// Body is what a segment's encrypted part has in it.
type Body struct {
	Start  int64     `json:"start"` // position in the output where it begins, in bytes
	End    int64     `json:"end"`
	From   time.Time `json:"from"` // of the first event
	To     time.Time `json:"to"`   // and the last
	Events int       `json:"events"`
	Size   int64     `json:"size"`   // of what is encrypted, in bytes
	SHA256 string    `json:"sha256"` // of what is encrypted

	List *List `json:"commands,omitempty"` // of the commands that are kept beside the segment
}

// window is how far back compression looks, in bytes: it takes memory of the process that records.
const window = 64 << 10

// NewWriter begins a segment whose output begins at the position start. Its encrypted part goes to w.
func NewWriter(w io.Writer, to age.Recipient, start int64) (*Writer, error) {
	s := &Writer{to: counter{to: w, sum: sha256.New()}, body: Body{Start: start, End: start}}
	var err error
	if s.sealed, err = age.Encrypt(&s.to, to); err != nil {
		return nil, fmt.Errorf("seal a recording: %w", err)
	}
	s.packed, err = zstd.NewWriter(s.sealed, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("seal a recording: %w", err)
	}
	return s, nil
}

// Add adds an event. One whose clock went back counts as of the same time as the last.
// Characters that two events of output share go to the second.
func (s *Writer) Add(e Event) error {
	if s.body.Events == 0 {
		s.body.From, s.last = e.Time.UTC().Round(0), e.Time
		s.body.To = s.body.From
	}
	data := e.Data
	if len(s.carry) > 0 && s.of == e.Code {
		data, s.carry = append(s.carry, data...), nil
	}
	if err := s.flush(e.Time); err != nil {
		return err
	}
	if e.Code == Output || e.Code == Input {
		n := whole(data)
		s.carry, s.of, data = bytes.Clone(data[n:]), e.Code, data[:n]
	}
	for {
		part := data[:min(len(data), MaxData)]
		if len(part) < len(data) {
			part = part[:whole(part)]
		}
		if len(part) > 0 || len(e.Data) == 0 {
			if err := s.write(e.Time, e.Code, part); err != nil {
				return err
			}
		}
		if data = data[len(part):]; len(data) == 0 {
			break
		}
	}
	return nil
}

// flush writes the beginning of a character that doesn't go on.
func (s *Writer) flush(at time.Time) error {
	if len(s.carry) == 0 {
		return nil
	}
	part := s.carry
	s.carry = nil
	return s.write(at, s.of, part)
}

func (s *Writer) write(at time.Time, code Code, data []byte) error {
	after := at.Sub(s.last).Truncate(time.Microsecond)
	if after < 0 {
		after = 0
	}
	s.last = s.last.Add(after)
	s.line.Reset()
	if err := appendLine(&s.line, after, code, data); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if _, err := s.packed.Write(s.line.Bytes()); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	s.body.Events++
	s.body.To = s.body.To.Add(after)
	s.body.End += Event{Code: code, Data: data}.Length()
	return nil
}

// Stored is about how much was written so far, in bytes.
func (s *Writer) Stored() int64 { return s.to.n }

// Close ends the segment and says what is in it. It closes nothing of the caller's.
func (s *Writer) Close() (Body, error) {
	err := s.flush(s.last)
	if err == nil {
		err = s.packed.Close()
	}
	if err == nil {
		err = s.sealed.Close() // after a failure it would seal a part as if it were all
	}
	if err != nil {
		return s.body, fmt.Errorf("seal a recording: %w", err)
	}
	s.body.Size, s.body.SHA256 = s.to.n, hex.EncodeToString(s.to.sum.Sum(nil))
	return s.body, nil
}

// counter counts what is written, and makes its digest.
type counter struct {
	to  io.Writer
	sum hash.Hash
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	c.sum.Write(p[:n])
	return n, err
}
