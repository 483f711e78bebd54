package recording

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// Stored is what the store has of a recording, of all runs, also of those from which the session was taken back.
type Stored struct {
	Segments []Ref // by their names alone
	Lists    []Ref // likewise
}

// All lists it, in the order of runs and numbers.
func All(ctx context.Context, store objectstore.Store, p Place) (all Stored, err error) {
	if all.Segments, err = list(ctx, store, p); err != nil {
		return all, err
	}
	err = store.List(ctx, p.prefix(), func(i objectstore.Info) error {
		if is, ok := p.parse(i.Name); ok && is.list {
			all.Lists = append(all.Lists, is.Ref)
		}
		return nil
	})
	if err != nil {
		return all, fmt.Errorf("list a recording: %w", err)
	}
	slices.SortFunc(all.Lists, inOrder)
	all.Lists = slices.Compact(all.Lists)
	return all, nil
}

// Head reads what a segment says of itself, with what was redacted of it. Without a digest it has to be signed by a key that is trusted.
// Errors: ErrCorrupt, ErrForged, objectstore.ErrNotFound or what the store says.
func Head(ctx context.Context, store objectstore.Store, p Place, at Ref, trusted func(signer string) []ed25519.PublicKey, redacted *Redaction) (Segment, error) {
	s, err := head(ctx, store, p, at, trusted, redacted)
	if err != nil {
		return s, fmt.Errorf("read a recording: %w", err)
	}
	return s, nil
}

// Lasting reports whether an error of Head or Read says what is wrong with a segment, and not with the store.
func Lasting(err error) bool { return lasting(err) }

// Rewrite stores a segment once more, with the data of its events changed, and as long as it was. The object has a tag, and counts only
// when a Redaction names it.
func (s Segment) Rewrite(ctx context.Context, store objectstore.Store, p Place, key age.Identity, tag string, change func(Event)) (*NewSegment, error) {
	fail := func(err error) (*NewSegment, error) {
		return nil, fmt.Errorf("write segment %d of a recording once more: %w", s.Number, err)
	}
	to, err := recipientOf(key)
	if err != nil {
		return fail(err)
	}
	clear, err := s.clear(ctx, store)
	if err != nil {
		return fail(err)
	}
	var sealed bytes.Buffer
	w, err := NewWriter(&sealed, to, s.Header.Start)
	if err != nil {
		return fail(err)
	}
	err = Read(ctx, store, p, s, key, func(e Event) error {
		change(e)
		return w.Add(e)
	})
	if err != nil {
		return fail(err)
	}
	body, err := w.Close()
	if err == nil && (body.Start != s.Header.Start || body.End != s.Header.End) {
		err = errors.New("it has another length")
	}
	if err == nil && body.Size > MaxBody {
		err = errors.New("it is too large")
	}
	if err != nil {
		return fail(err)
	}
	if body.Events == 0 {
		body.From, body.To = s.Header.From, s.Header.To
	}
	if err := putTagged(ctx, store, tagged(p.Name(s.Run, s.Number), tag), append(clear, sealed.Bytes()...)); err != nil {
		return fail(err)
	}
	return &NewSegment{Tag: tag, Body: body}, nil
}

// clear reads the lines before what is encrypted.
func (s Segment) clear(ctx context.Context, store objectstore.Store) ([]byte, error) {
	in, err := store.Get(ctx, s.object, 0, s.at)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	clear, err := io.ReadAll(in)
	if err == nil && int64(len(clear)) != s.at {
		err = fmt.Errorf("%w: it is cut short", ErrCorrupt)
	}
	return clear, err
}

func putTagged(ctx context.Context, store objectstore.Store, name string, data []byte) error {
	return store.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
}

// OpenedList is a list of commands that was read.
type OpenedList struct {
	Ref
	Commands []schemas.TypedCommand
	dropped  int
	clear    []byte
}

// ReadList reads one list, as Head does a segment. key gives what the segments of its run are encrypted to.
func ReadList(ctx context.Context, store objectstore.Store, p Place, at Ref, trusted func(signer string) []ed25519.PublicKey, redacted *Redaction, key func(ctx context.Context, run string) (age.Identity, error)) (l OpenedList, err error) {
	fail := func(err error) (OpenedList, error) { return l, fmt.Errorf("read a list of commands: %w", err) }
	s, sealed, err := readTrustedList(ctx, store, p, at, trusted, redacted)
	if err != nil {
		return fail(err)
	}
	if s.Header.List == nil {
		return fail(fmt.Errorf("%w: it isn't named", ErrCorrupt))
	}
	if err := s.Header.List.Holds(sealed); err != nil {
		return fail(err)
	}
	id, err := key(ctx, at.Run)
	if err != nil {
		return fail(err)
	}
	l.Ref, l.dropped = s.Ref, s.Header.List.Dropped
	if l.clear, err = s.clear(ctx, store); err != nil {
		return fail(err)
	}
	commands, bad, err := openList(sealed, id)
	l.Commands, l.dropped = commands, l.dropped+bad
	return l, err
}

// Rewrite stores a list once more, with its commands as they are now.
func (l OpenedList) Rewrite(ctx context.Context, store objectstore.Store, p Place, key age.Identity, tag string) (*NewList, error) {
	to, err := recipientOf(key)
	if err != nil {
		return nil, fmt.Errorf("write a list of commands once more: %w", err)
	}
	entries := make([][]byte, len(l.Commands))
	for i, c := range l.Commands {
		if entries[i], err = Entry(c); err != nil {
			return nil, err
		}
	}
	sealed, is, err := SealList(entries, l.dropped, to)
	if err != nil {
		return nil, err
	}
	if err := putTagged(ctx, store, tagged(p.ListName(l.Run, l.Number), tag), append(l.clear, sealed...)); err != nil {
		return nil, fmt.Errorf("write a list of commands once more: %w", err)
	}
	return &NewList{Tag: tag, List: is}, nil
}
