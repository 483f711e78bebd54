package recording

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
)

// Redaction says which objects have the place of segments and lists of commands that were written once more, with something taken
// out. Each one has all that the ones before it had. It is the change: what it doesn't name counts for nothing.
type Redaction struct {
	UID        schemas.UID    `json:"uid"`
	Generation uint64         `json:"generation"` // from 1, each one more than the one before
	At         time.Time      `json:"at"`
	By         string         `json:"by"`
	Matches    int            `json:"matches"`
	Signer     schemas.HostID `json:"signer"`
	Replaced   []Replaced     `json:"replaced"`        // in the order of runs and numbers
	Rules      *Rules         `json:"rules,omitempty"` // what is to be taken out of what comes late
}

// Replaced is one segment, its list of commands, or both.
type Replaced struct {
	Run     string      `json:"run"`
	Number  uint64      `json:"number"`
	Digest  string      `json:"digest"` // of the segment as it was and is named by others
	Segment *NewSegment `json:"segment,omitempty"`
	List    *NewList    `json:"commands,omitempty"`
}

// NewSegment is what a segment has now. Nothing but its text is another.
type NewSegment struct {
	Tag string `json:"tag"` // of its object's name
	Body
}

// NewList is what a list of commands has now.
type NewList struct {
	Tag string `json:"tag"`
	List
}

const (
	redactionMagic = "diapause-redaction 1"
	// redactionFolder is beside those of runs.
	redactionFolder = "redaction/"
	// tagMark is before the tag in the name of an object.
	tagMark = ".redacted-"
	// maxRedaction bounds what says which objects there are, in bytes.
	maxRedaction = 128 << 20
)

// Tag begins the names of what is written for a generation; unique is any token.
func Tag(generation uint64, unique string) string { return fmt.Sprintf("%08d-%s", generation, unique) }

// generationOf reads the generation from a tag; 0 if it is none.
func generationOf(tag string) uint64 {
	digits, _, _ := strings.Cut(tag, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (p Place) redactionName(generation uint64) string {
	return fmt.Sprintf("%s%s%012d", p.prefix(), redactionFolder, generation)
}

// generation reads what redactionName gave; 0 of another name.
func (p Place) generation(name string) uint64 {
	digits, ok := strings.CutPrefix(name, p.prefix()+redactionFolder)
	if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && p.redactionName(n) == name {
		return n
	}
	return 0
}

// tagged adds a tag to the name of an object; without one it stays.
func tagged(name, tag string) string {
	if tag == "" {
		return name
	}
	return name + tagMark + tag
}

// part is an object of a recording, by its name.
type part struct {
	Ref
	list bool
	tag  string
}

// parse reads the name of a segment or of a list, also of one that was written once more.
func (p Place) parse(name string) (is part, ok bool) {
	base, tag, _ := strings.Cut(name, tagMark)
	is.tag = tag
	base, is.list = strings.CutSuffix(base, listSuffix)
	is.Run, is.Number, ok = p.parseName(base)
	return is, ok
}

// Redacted gives what counts for a recording; nil if nothing was taken out. One that no trusted key signed counts for nothing.
func Redacted(ctx context.Context, store objectstore.Store, p Place, trusted func(signer string) []ed25519.PublicKey) (*Redaction, error) {
	var generations []uint64
	err := store.List(ctx, p.prefix()+redactionFolder, func(i objectstore.Info) error {
		if n := p.generation(i.Name); n > 0 {
			generations = append(generations, n)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look what was redacted: %w", err)
	}
	slices.Sort(generations)
	for _, n := range slices.Backward(generations) {
		r, err := readRedaction(ctx, store, p, n, trusted)
		if err == nil {
			return r, nil
		}
		if !lasting(err) {
			return nil, fmt.Errorf("read what was redacted: %w", err)
		}
	}
	return nil, nil
}

func readRedaction(ctx context.Context, store objectstore.Store, p Place, generation uint64, trusted func(signer string) []ed25519.PublicKey) (*Redaction, error) {
	in, err := store.Get(ctx, p.redactionName(generation), 0, maxRedaction)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	lines := bytes.SplitAfterN(data, []byte("\n"), 4)
	if len(lines) != 4 || string(lines[0]) != redactionMagic+"\n" || len(lines[3]) > 0 {
		return nil, fmt.Errorf("%w: a redaction does not begin as one", ErrCorrupt)
	}
	var r Redaction
	if err := json.Unmarshal(lines[1], &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	signed := data[:len(lines[0])+len(lines[1])]
	signature, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(string(lines[2]), "\n"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !slices.ContainsFunc(trusted(string(r.Signer)), func(key ed25519.PublicKey) bool { return ed25519.Verify(key, signed, signature) }) {
		return nil, fmt.Errorf("%w: no trusted key of host %q signed a redaction", ErrForged, r.Signer)
	}
	if r.UID != p.UID || r.Generation != generation {
		return nil, fmt.Errorf("%w: a redaction is of another recording", ErrForged)
	}
	slices.SortFunc(r.Replaced, order)
	return &r, nil
}

func order(a, b Replaced) int {
	return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Number, b.Number))
}

// of gives what was replaced of a segment; nil if nothing was. A nil Redaction has nothing.
func (r *Redaction) of(at Ref) *Replaced {
	if r == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(r.Replaced, Replaced{Run: at.Run, Number: at.Number}, order)
	if !found {
		return nil
	}
	return &r.Replaced[i]
}

// Has reports whether something else has the place of a segment, or of its commands. A nil Redaction has nothing.
func (r *Redaction) Has(at Ref) bool {
	was := r.of(at)
	return was != nil && was.Digest == at.Digest
}

// Counts is the generation of r; 0 of a nil Redaction.
func (r *Redaction) Counts() uint64 {
	if r == nil {
		return 0
	}
	return r.Generation
}

// Next gives what comes after a redaction, which may be nil, with what it has.
func (r *Redaction) Next(p Place) Redaction {
	out := Redaction{UID: p.UID, Generation: r.Counts() + 1}
	if r != nil {
		out.Replaced, out.Rules = slices.Clone(r.Replaced), r.Rules
	}
	return out
}

// Replace has r name another object for a segment or its list of commands.
func (r *Redaction) Replace(at Ref, segment *NewSegment, list *NewList) {
	i, found := slices.BinarySearchFunc(r.Replaced, Replaced{Run: at.Run, Number: at.Number}, order)
	if !found {
		r.Replaced = slices.Insert(r.Replaced, i, Replaced{Run: at.Run, Number: at.Number, Digest: at.Digest})
	}
	is := &r.Replaced[i]
	is.Segment, is.List = cmp.Or(segment, is.Segment), cmp.Or(list, is.List)
}

// ErrRedacted: another redaction of the recording came first.
var ErrRedacted = errors.New("the recording was redacted meanwhile")

// Put makes a redaction count. Of several of one generation the first does, and the others get ErrRedacted. After another error
// it isn't known whether this one does.
func (r Redaction) Put(ctx context.Context, store objectstore.Store, p Place, key ed25519.PrivateKey) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a redaction: %w", err)
	}
	data := []byte(redactionMagic + "\n" + string(line) + "\n")
	data = append(data, base64.StdEncoding.EncodeToString(ed25519.Sign(key, data))+"\n"...)
	if len(data) > maxRedaction {
		return fmt.Errorf("store a redaction: %d bytes are more than %d", len(data), maxRedaction)
	}
	err = store.Put(ctx, p.redactionName(r.Generation), bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, objectstore.ErrExists) {
		return ErrRedacted
	}
	if err != nil {
		return fmt.Errorf("store a redaction: %w", err)
	}
	return nil
}

// Clear deletes what a redaction has replaced, and what others before it left that came to nothing, with all indexes: one may be of what
// was there before. It can be repeated until it succeeds.
func (r *Redaction) Clear(ctx context.Context, store objectstore.Store, p Place) error {
	if r == nil {
		return nil
	}
	var old []string
	err := store.List(ctx, p.prefix(), func(i objectstore.Info) error {
		is, ok := p.parse(i.Name)
		if n := p.generation(i.Name); ok && r.replaces(is) || n > 0 && n < r.Generation || p.isIndex(i.Name) {
			old = append(old, i.Name)
		}
		return nil
	})
	for _, name := range old {
		if err == nil {
			err = store.Delete(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("delete what was redacted: %w", err)
	}
	return nil
}

// replaces reports whether an object counts for nothing.
func (r *Redaction) replaces(is part) bool {
	if is.tag != "" && generationOf(is.tag) > r.Generation {
		return false // of one that is under way
	}
	was := r.of(is.Ref)
	now := ""
	switch {
	case was == nil:
	case is.list && was.List != nil:
		now = was.List.Tag
	case !is.list && was.Segment != nil:
		now = was.Segment.Tag
	}
	return is.tag != now
}

// Left reports whether there is something that counts for nothing, and that Clear of the next redaction would delete.
func (r *Redaction) Left(ctx context.Context, store objectstore.Store, p Place) (left bool, err error) {
	then := r.Next(p)
	err = store.List(ctx, p.prefix(), func(i objectstore.Info) error {
		is, ok := p.parse(i.Name)
		left = left || ok && then.replaces(is)
		return nil
	})
	return left, err
}
