package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// List says what commands are kept beside a segment, in an object of its own: it stays when the segment is deleted for
// room.
type List struct {
	Entries int    `json:"entries"`
	Dropped int    `json:"dropped,omitempty"` // commands for which there was no room
	Size    int64  `json:"size"`              // of what is encrypted, in bytes
	SHA256  string `json:"sha256"`            // of what is encrypted
}

// MaxEntries bounds the entries of one list, in bytes of JSON. MaxList bounds what is encrypted.
const (
	MaxEntries = 256 << 10
	MaxList    = 2 * MaxEntries
)

// listSuffix is added to the name of a segment's object.
const listSuffix = ".commands"

// ListName is the name of the object with a segment's commands.
func (p Place) ListName(run string, number uint64) string { return p.Name(run, number) + listSuffix }

// Entry is a command as a list has it: a line of JSON. Its size is what counts for MaxEntries.
func Entry(c schemas.TypedCommand) ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode a command: %w", err)
	}
	return append(b, '\n'), nil
}

// SealList encrypts entries, and says what they are.
func SealList(entries [][]byte, dropped int, to age.Recipient) (sealed []byte, l List, err error) {
	fail := func(err error) ([]byte, List, error) { return nil, l, fmt.Errorf("seal a list of commands: %w", err) }
	var out bytes.Buffer
	enc, err := age.Encrypt(&out, to)
	if err != nil {
		return fail(err)
	}
	packed, err := zstd.NewWriter(enc, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return fail(err)
	}
	for _, e := range entries {
		if _, err := packed.Write(e); err != nil {
			return fail(err)
		}
	}
	if err := packed.Close(); err != nil {
		return fail(err)
	}
	if err := enc.Close(); err != nil {
		return fail(err)
	}
	sum := sha256.Sum256(out.Bytes())
	return out.Bytes(), List{len(entries), dropped, int64(out.Len()), hex.EncodeToString(sum[:])}, nil
}

// Holds fails if something else is encrypted than what l says.
func (l List) Holds(sealed []byte) error { return Body{Size: l.Size, SHA256: l.SHA256}.Holds(sealed) }

// PutList stores the commands of a segment: what Seal gave for it, followed by what SealList did. It is called before Put, and
// can be repeated as that can.
func PutList(ctx context.Context, store objectstore.Store, p Place, ref Ref, list []byte) error {
	err := store.Put(ctx, p.ListName(ref.Run, ref.Number), bytes.NewReader(list), int64(len(list)))
	if errors.Is(err, objectstore.ErrExists) {
		_, _, err = readList(ctx, store, p, ref, nil, true)
	}
	if err != nil {
		return fmt.Errorf("store a list of commands: %w", err)
	}
	return nil
}

// readTrustedList reads a list. Without a digest its header has to be signed by a key that is trusted.
func readTrustedList(ctx context.Context, store objectstore.Store, p Place, want Ref, trusted func(signer string) []ed25519.PublicKey, redacted *Redaction) (Segment, []byte, error) {
	return listReader{store, p, trusted, redacted}.read(ctx, want, int64(maxHead+MaxList))
}

// readList reads the object of a list: whose header it has, and, but for headOnly, what is encrypted.
func readList(ctx context.Context, store objectstore.Store, p Place, want Ref, redacted *Redaction, headOnly bool) (s Segment, sealed []byte, err error) {
	most := int64(maxHead + MaxList)
	if headOnly {
		most = maxHead
	}
	return listReader{store: store, place: p, redacted: redacted}.read(ctx, want, most)
}

// listReader reads lists of a recording.
type listReader struct {
	store    objectstore.Store
	place    Place
	trusted  func(signer string) []ed25519.PublicKey
	redacted *Redaction
}

func (l listReader) read(ctx context.Context, want Ref, most int64) (s Segment, sealed []byte, err error) {
	tag, replaced := "", l.redacted.of(want)
	if replaced != nil && replaced.List != nil {
		tag = replaced.List.Tag
	}
	name := tagged(l.place.ListName(want.Run, want.Number), tag)
	r, err := l.store.Get(ctx, name, 0, most)
	if err != nil {
		return s, nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return s, nil, err
	}
	if s, err = parseHead(data, want, l.trusted); err == nil && s.Header.UID != l.place.UID {
		err = fmt.Errorf("%w: it is of another session", ErrForged)
	}
	s.object = name
	if err == nil && replaced != nil {
		err = s.replace(*replaced)
	}
	if err != nil {
		return s, nil, err
	}
	return s, data[s.at:], nil
}

// Lists are the lists of commands of a recording, the newest first.
type Lists struct {
	store objectstore.Store
	place Place
	next  *Ref
	from  *Ref // a segment that names none, though there may be one before it: next is looked for from there
	is    *Redaction
	older bool // next was named by another list
	short bool
	first *Ref // of all lists that are there, by their names; nil before it is known
}

// Shortened reports whether older lists were deleted for room, after Next gave io.EOF.
func (l *Lists) Shortened() bool { return l.short }

// FollowLists gives the lists up to a segment, which is known to be genuine: each is vouched for by the digest that the one after it
// names. They are there also of segments that were deleted for room, until they take too much themselves. What was redacted of them is
// what Redacted gave.
func FollowLists(store objectstore.Store, p Place, end *Ref, redacted *Redaction) *Lists {
	l := &Lists{store: store, place: p, is: redacted}
	l.after(end)
	return l
}

// after has the next list be the one that was named last up to a segment.
func (l *Lists) after(s *Ref) {
	if s == nil {
		return
	}
	if l.next = s.Listed; l.next == nil {
		l.from = s
	}
}

// look finds the last list up to the segment from, which names none: either there is none, or a version that knows no lists has stored that
// segment. So the ones before it are looked at, one after the other, as long as there are lists that may belong to them.
func (l *Lists) look(ctx context.Context) (*Ref, error) {
	at := l.from
	l.from = nil
	if l.first == nil {
		if err := l.lookFirst(ctx); err != nil {
			return nil, err
		}
	}
	for at != nil && l.first.Number > 0 && inOrder(*l.first, *at) <= 0 {
		s, err := head(ctx, l.store, l.place, *at, nil, l.is)
		if errors.Is(err, objectstore.ErrNotFound) {
			l.short = true // nothing leads to what is there
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look for a list of commands: %w", err)
		}
		if s.Listed != nil {
			return s.Listed, nil
		}
		at = s.Header.Previous
	}
	return nil, nil
}

// lookFirst finds the first of all lists that are there.
func (l *Lists) lookFirst(ctx context.Context) error {
	var first Ref
	err := l.store.List(ctx, l.place.prefix(), func(i objectstore.Info) error {
		if is, ok := l.place.parse(i.Name); ok && is.list && (first.Number == 0 || inOrder(is.Ref, first) < 0) {
			first = is.Ref
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list a recording: %w", err)
	}
	l.first = &first
	return nil
}

// Next gives the next list, io.EOF after the last. key gives what the segments of a run are encrypted to. After ErrCorrupt or
// ErrForged the list can't be read; the ones before it may be.
func (l *Lists) Next(ctx context.Context, key func(ctx context.Context, run string) (age.Identity, error)) (all []schemas.TypedCommand, dropped int, err error) {
	if l.next == nil && l.from != nil {
		if l.next, err = l.look(ctx); err != nil {
			return nil, 0, err
		}
	}
	if l.next == nil {
		return nil, 0, io.EOF
	}
	at := *l.next
	l.next = nil
	s, sealed, err := readList(ctx, l.store, l.place, at, l.is, false)
	if errors.Is(err, objectstore.ErrNotFound) && l.older {
		next, pastErr := l.past(ctx, at)
		if next == nil && pastErr == nil {
			l.short = true
			return nil, 0, io.EOF
		}
		l.next = next
		return nil, 0, fmt.Errorf("read a list of commands: %w", cmp.Or(pastErr, err))
	}
	if err != nil {
		// The segment itself may still say where the one before is.
		was, headErr := head(ctx, l.store, l.place, at, nil, l.is)
		if headErr != nil {
			return nil, 0, fmt.Errorf("read a list of commands: %w", err)
		}
		s = was
	}
	l.after(s.Header.Previous)
	l.older = true
	if err != nil {
		return nil, 0, fmt.Errorf("read a list of commands: %w", err)
	}
	if s.Header.List == nil {
		return nil, 0, fmt.Errorf("read a list of commands: %w: it isn't named", ErrCorrupt)
	}
	if err := s.Header.List.Holds(sealed); err != nil {
		return nil, 0, fmt.Errorf("read a list of commands: %w", err)
	}
	id, err := key(ctx, at.Run)
	if err != nil {
		return nil, 0, fmt.Errorf("read a list of commands: %w", err)
	}
	all, bad, err := openList(sealed, id)
	return all, s.Header.List.Dropped + bad, err
}

// lookPast bounds how many lists that aren't there are looked past.
const lookPast = 8

// past gives the next list that is there before one that isn't. If there is none, they were deleted for room, the oldest first: so it isn't
// looked for one that isn't named.
func (l *Lists) past(ctx context.Context, at Ref) (*Ref, error) {
	for range lookPast {
		s, err := head(ctx, l.store, l.place, at, nil, l.is)
		if errors.Is(err, objectstore.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if s.Header.Previous == nil || s.Header.Previous.Listed == nil {
			return nil, nil
		}
		at = *s.Header.Previous.Listed
		if _, _, err := readList(ctx, l.store, l.place, at, l.is, true); !errors.Is(err, objectstore.ErrNotFound) {
			return &at, nil
		}
	}
	return nil, nil
}

// openList decrypts a list. A line that can't be read is counted, and passed over.
func openList(sealed []byte, key age.Identity) (all []schemas.TypedCommand, bad int, err error) {
	opened, err := age.Decrypt(bytes.NewReader(sealed), key)
	if err != nil {
		return nil, 0, fmt.Errorf("read a list of commands: %w: %w", ErrCorrupt, err)
	}
	z, err := zstd.NewReader(opened, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMemory))
	if err != nil {
		return nil, 0, fmt.Errorf("read a list of commands: %w: %w", ErrCorrupt, err)
	}
	defer z.Close()
	lines := bufio.NewScanner(io.LimitReader(z, 2*MaxEntries))
	lines.Buffer(nil, MaxEntries)
	for lines.Scan() {
		var c schemas.TypedCommand
		if json.Unmarshal(lines.Bytes(), &c) != nil || c.Number <= 0 {
			bad++
			continue
		}
		all = append(all, c)
	}
	if err := lines.Err(); err != nil {
		return all, bad, fmt.Errorf("read a list of commands: %w: %w", ErrCorrupt, err)
	}
	return all, bad, nil
}
