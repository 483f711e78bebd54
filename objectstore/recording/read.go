package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/objectstore"
)

// Put stores a segment: what Seal gave, followed by what a Writer wrote. One that is there already is
// the same one, or the error is ErrForged. Of an error of the store the outcome isn't known: it can be repeated.
func Put(ctx context.Context, store objectstore.Store, p Place, ref Ref, segment []byte) error {
	err := store.Put(ctx, p.Name(ref.Run, ref.Number), bytes.NewReader(segment), int64(len(segment)))
	if errors.Is(err, objectstore.ErrExists) {
		_, err = head(ctx, store, p, ref, nil, nil)
	}
	if err != nil {
		return fmt.Errorf("store a recording: %w", err)
	}
	return nil
}

// head reads the clear part of a segment. What was redacted of it has its place.
func head(ctx context.Context, store objectstore.Store, p Place, want Ref, trusted func(signer string) []ed25519.PublicKey, redacted *Redaction) (Segment, error) {
	var is NewSegment
	replaced := redacted.of(want)
	if replaced != nil && replaced.Segment != nil {
		is = *replaced.Segment
	}
	name := tagged(p.Name(want.Run, want.Number), is.Tag)
	r, err := store.Get(ctx, name, 0, maxHead)
	if err != nil {
		return Segment{}, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return Segment{}, err
	}
	s, err := parseHead(data, want, trusted)
	if err == nil && s.Header.UID != p.UID {
		err = fmt.Errorf("%w: it is of another session", ErrForged)
	}
	s.object = name
	if err == nil && replaced != nil {
		err = s.replace(*replaced)
	}
	return s, err
}

// replace has the segment have what has its place, of which nothing but the text may be another.
func (s *Segment) replace(by Replaced) error {
	if by.Digest != s.Digest {
		return fmt.Errorf("%w: another segment %d of run %s was redacted", ErrForged, s.Number, s.Run)
	}
	is, list := s.Header.Body, s.Header.List
	if by.Segment != nil {
		is = by.Segment.Body
	}
	if by.List != nil {
		list = &by.List.List
	}
	if is.Start != s.Header.Start || is.End != s.Header.End || is.Size <= 0 || is.Size > MaxBody || list != nil && (list.Size <= 0 || list.Size > MaxList) {
		return fmt.Errorf("%w: what has the place of segment %d isn't as long", ErrCorrupt, s.Number)
	}
	s.Header.Body, s.Header.List = is, list
	return nil
}

// Chain is a recording, as far as it is there.
type Chain struct {
	Segments []Segment  // the oldest first
	Why      error      // why there is nothing before the first; nil if it is the beginning
	Redacted *Redaction // what was redacted of it; nil if nothing was
	After    error      // what is wrong with segments that seem to come after the last; nil if there are none
}

// Part says how much of a recording is wanted, from its end: all of it if nothing is said.
type Part struct {
	Since time.Time // nothing before it
	From  int64     // nothing before this position in the output
	Most  int       // segments
}

// has reports whether a chain, the newest segment first, has enough.
func (p Part) has(c Chain) bool {
	n := len(c.Segments)
	last := c.Segments[n-1]
	return p.Most > 0 && n >= p.Most || p.From > 0 && last.Header.Start <= p.From || !last.After(p.Since)
}

// Follow gives the segments that lead to the end of a recording, or those of a part of it. Without an end that is known to be
// genuine it is what Tip gives; the others are
// vouched for by the digests that the next ones name. What was recorded of a run from which the
// session was taken back isn't among them. The error is the store's.
func Follow(ctx context.Context, store objectstore.Store, p Place, end *Ref, part Part, trusted func(signer string) []ed25519.PublicKey) (Chain, error) {
	var c Chain
	redacted, err := Redacted(ctx, store, p, trusted)
	if err != nil {
		return c, err
	}
	c.Redacted = redacted
	if end == nil {
		tip, wrong, err := tipOf(ctx, store, p, trusted, redacted)
		if c.After = wrong; err != nil || tip == nil {
			c.Why = wrong
			return c, err
		}
		end = &tip.Ref
	}
	for at := end; at != nil; {
		s, err := head(ctx, store, p, *at, trusted, redacted)
		if err != nil && !lasting(err) {
			return c, fmt.Errorf("follow a recording: %w", err)
		}
		if c.Why = err; err != nil {
			break
		}
		c.Segments = append(c.Segments, s)
		if at = s.Header.Previous; part.has(c) {
			break
		}
	}
	slices.Reverse(c.Segments)
	return c, nil
}

// tips bounds how many segments Tip looks at.
const tips = 100

// Tip gives the last segment of the last run that is signed by a key which is trusted; nil if there is none. What
// is damaged or of someone else is passed over: wrong says so of the last of these. The error is the store's.
func Tip(ctx context.Context, store objectstore.Store, p Place, trusted func(signer string) []ed25519.PublicKey) (tip *Segment, wrong, err error) {
	redacted, err := Redacted(ctx, store, p, trusted)
	if err != nil {
		return nil, nil, err
	}
	return tipOf(ctx, store, p, trusted, redacted)
}

func tipOf(ctx context.Context, store objectstore.Store, p Place, trusted func(signer string) []ed25519.PublicKey, redacted *Redaction) (tip *Segment, wrong, err error) {
	all, err := list(ctx, store, p)
	if err != nil {
		return nil, nil, err
	}
	for _, at := range slices.Backward(all[max(len(all)-tips, 0):]) {
		s, err := head(ctx, store, p, at, trusted, redacted)
		if err == nil {
			return &s, wrong, nil
		}
		if !lasting(err) {
			return nil, wrong, fmt.Errorf("find the end of a recording: %w", err)
		}
		if !errors.Is(err, objectstore.ErrNotFound) { // it was deleted meanwhile
			wrong = cmp.Or(wrong, err)
		}
	}
	return nil, wrong, nil
}

// lasting reports whether an error says what is wrong with a segment, and not with the store.
func lasting(err error) bool {
	return errors.Is(err, objectstore.ErrNotFound) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrForged)
}

// list gives the segments of all runs by their names alone, without a digest, in their order.
func list(ctx context.Context, store objectstore.Store, p Place) (all []Ref, err error) {
	err = store.List(ctx, p.prefix(), func(i objectstore.Info) error {
		if is, ok := p.parse(i.Name); ok && !is.list {
			all = append(all, is.Ref)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list a recording: %w", err)
	}
	slices.SortFunc(all, inOrder)
	return slices.Compact(all), nil
}

// inOrder compares where segments are in a recording, by their names.
func inOrder(a, b Ref) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Number, b.Number)) }

// maxMemory bounds what decompression may take, in bytes.
const maxMemory = 8 << 20

// Read calls fn with the events of a segment, after all of what is encrypted was found to be what its
// header names. key is the one that the segment's run is encrypted to. fn's error is returned as it is.
func Read(ctx context.Context, store objectstore.Store, p Place, s Segment, key age.Identity, fn func(Event) error) error {
	r, err := store.Get(ctx, s.object, s.at, s.Header.Size+1)
	if err != nil {
		return fmt.Errorf("read a recording: %w", err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read a recording: %w", err)
	}
	if err := s.Header.Holds(body); err != nil {
		return fmt.Errorf("read a recording: %w", err)
	}
	return Decode(bytes.NewReader(body), s.Header.Body, key, fn)
}

// Holds fails if something else is encrypted than what b says.
func (b Body) Holds(sealed []byte) error {
	sum := sha256.Sum256(sealed)
	if int64(len(sealed)) != b.Size || hex.EncodeToString(sum[:]) != b.SHA256 {
		return fmt.Errorf("%w: what is encrypted isn't what its header names", ErrCorrupt)
	}
	return nil
}

// Decode calls fn with the events of what a Writer wrote. It is for one that was written here: nothing says that it is genuine.
func Decode(sealed io.Reader, b Body, key age.Identity, fn func(Event) error) error {
	opened, err := age.Decrypt(sealed, key)
	if err != nil {
		return fmt.Errorf("read a recording: %w: %w", ErrCorrupt, err)
	}
	return decode(opened, b, fn)
}

// decode calls fn with the events of what was encrypted.
func decode(packed io.Reader, b Body, fn func(Event) error) error {
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMemory))
	if err != nil {
		return fmt.Errorf("read a recording: %w: %w", ErrCorrupt, err)
	}
	defer z.Close()
	lines := bufio.NewScanner(z)
	lines.Buffer(make([]byte, 64<<10), MaxLine)
	at, position, n := b.From, b.Start, 0
	for ; lines.Scan(); n++ {
		after, e, ok, err := parseLine(lines.Bytes())
		if err != nil {
			return fmt.Errorf("read a recording: event %d: %w", n+1, err)
		}
		at = at.Add(after)
		if !ok {
			continue
		}
		e.Time, e.At = at, position
		position += e.Length()
		if position > b.End {
			return fmt.Errorf("read a recording: %w: it has more output than its header says", ErrCorrupt)
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	err = lines.Err()
	if err == nil && (n != b.Events || position != b.End) {
		err = errors.New("it has less in it than its header says")
	}
	if err != nil {
		return fmt.Errorf("read a recording: %w: %w", ErrCorrupt, err)
	}
	return nil
}

// After reports whether a segment has events of or after t.
func (s Segment) After(t time.Time) bool { return !s.Header.To.Before(t) }
