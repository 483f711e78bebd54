package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/schemas"
)

// The index is lines of JSON: an indexHead, an indexPack for each pack of the
// header, in its order, and an indexEntry for each entry.

type indexHead struct {
	Index   int   `json:"index"` // 1
	Packs   int64 `json:"packs"`
	Entries int64 `json:"entries"`
}

type indexPack struct {
	Pack   string     `json:"pack"`
	Frames [][2]int64 `json:"frames"` // stored bytes and pages of each zstd frame
	Spans  []string   `json:"spans"`  // BLAKE3 of each MiB of the pack as stored
}

// run is a stretch of a file's pages: pack (its place in the index, -1 for zero
// pages), first page within the pack, number of pages.
type run [3]int64

const zeroPack = -1

type indexEntry struct {
	Entry
	RawName []byte `json:"name_b64,omitempty"` // the name, if it is not valid UTF-8
	RawLink []byte `json:"link_b64,omitempty"` // the link, likewise
	Runs    []run  `json:"runs,omitempty"`
}

// index is what the encrypted index says.
type index struct {
	packs   []indexPack
	entries []Entry
	runs    [][]run // of each entry
}

// encode writes the index as text.
func (x *index) encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(indexHead{1, int64(len(x.packs)), int64(len(x.entries))}); err != nil {
		return err
	}
	for _, p := range x.packs {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	for i, e := range x.entries {
		line := indexEntry{Entry: e, Runs: x.runs[i]}
		if !utf8.ValidString(e.Name) {
			line.Name, line.RawName = "", []byte(e.Name)
		}
		if !utf8.ValidString(e.Link) {
			line.Link, line.RawLink = "", []byte(e.Link)
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// indexCoders are kept for the next index: what one begins with takes longer to make
// than most indexes take to compress.
var indexCoders = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(chunkSize))
	if err != nil {
		panic(err) // an option is out of its bounds
	}
	return z
}}

// seal encodes, compresses and encrypts the index.
func (x *index) seal(recipient age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	enc, err := age.Encrypt(&out, recipient)
	if err != nil {
		return nil, fmt.Errorf("encrypt index: %w", err)
	}
	z := indexCoders.Get().(*zstd.Encoder)
	defer indexCoders.Put(z)
	z.Reset(enc)
	defer z.Reset(nil) // it isn't to keep what it wrote to
	if err := x.encode(z); err != nil {
		return nil, errors.Join(fmt.Errorf("encode index: %w", err), z.Close())
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress index: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encrypt index: %w", err)
	}
	return out.Bytes(), nil
}

// maxIndex bounds an index's text.
const maxIndex = 1 << 30

// unsealIndex decrypts and reads an index whose digest has been verified.
func unsealIndex(data []byte, packs []schemas.ImagePack, id age.Identity) (*index, error) {
	r, err := age.Decrypt(bytes.NewReader(data), id)
	if err != nil {
		return nil, ageError(err)
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxIndex))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	x, err := parseIndex(io.LimitReader(z, maxIndex), packs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return x, nil
}

// parseIndex reads and checks the text of an index.
func parseIndex(r io.Reader, packs []schemas.ImagePack) (*index, error) {
	dec := json.NewDecoder(r)
	var head indexHead
	if err := dec.Decode(&head); err != nil {
		return nil, fmt.Errorf("first line: %w", err)
	}
	if head.Index != 1 || head.Packs != int64(len(packs)) || head.Entries < 0 {
		return nil, fmt.Errorf("index of version %d with %d packs: want version 1 and %d", head.Index, head.Packs, len(packs))
	}
	x := &index{}
	for i, p := range packs {
		var line indexPack
		if err := dec.Decode(&line); err != nil {
			return nil, fmt.Errorf("pack %d: %w", i, err)
		}
		if err := line.check(p); err != nil {
			return nil, fmt.Errorf("pack %s: %w", p.Name, err)
		}
		x.packs = append(x.packs, line)
	}
	for i := range head.Entries {
		if err := x.parseEntry(dec, packs); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("after the last entry: %w", errors.Join(errors.New("there is more"), err))
	}
	return x, checkTree(x.entries)
}

func (p indexPack) check(ref schemas.ImagePack) error {
	if p.Pack != ref.Name {
		return fmt.Errorf("the index has %.40q in its place", p.Pack)
	}
	var stored, count int64
	for _, f := range p.Frames {
		if f[0] <= 0 || f[0] > ref.Size || f[1] <= 0 || f[1] > maxFrame {
			return fmt.Errorf("frame of %d bytes and %d pages", f[0], f[1])
		}
		stored, count = stored+f[0], count+f[1]
	}
	if stored > ref.Size || count != ref.Pages {
		return fmt.Errorf("frames of %d bytes and %d pages, want %d and %d", stored, count, ref.Size, ref.Pages)
	}
	if int64(len(p.Spans)) != (ref.Size+spanSize-1)/spanSize {
		return fmt.Errorf("%d digests for %d bytes", len(p.Spans), ref.Size)
	}
	for _, s := range p.Spans {
		if !isHex(s, 64) {
			return fmt.Errorf("invalid digest %.70q", s)
		}
	}
	return nil
}

func (x *index) parseEntry(dec *json.Decoder, packs []schemas.ImagePack) error {
	var line indexEntry
	if err := dec.Decode(&line); err != nil {
		return err
	}
	if line.RawName != nil {
		line.Name = string(line.RawName)
	}
	if line.RawLink != nil {
		line.Link = string(line.RawLink)
	}
	if err := line.check(); err != nil {
		return err
	}
	if err := checkRuns(line.Runs, line.Size, packs); err != nil {
		return fmt.Errorf("%q: %w", line.Name, err)
	}
	x.entries = append(x.entries, line.Entry)
	x.runs = append(x.runs, line.Runs)
	return nil
}

// maxFile bounds the size of one file: the page numbers of a lineage's space.
const maxFile = int64(maxNumber) * PageSize

func checkRuns(runs []run, size int64, packs []schemas.ImagePack) error {
	if size < 0 || size > maxFile {
		return fmt.Errorf("size %d", size)
	}
	var total int64
	for _, r := range runs {
		pack, page, count := r[0], r[1], r[2]
		if pack < zeroPack || pack >= int64(len(packs)) || count <= 0 || count > maxNumber || page < 0 {
			return fmt.Errorf("run %v is invalid", r)
		}
		if pack == zeroPack && page != 0 || pack != zeroPack && (page > packs[pack].Pages || count > packs[pack].Pages-page) {
			return fmt.Errorf("run %v reaches beyond its pack", r)
		}
		if total += count; total > maxNumber {
			return fmt.Errorf("more than %d pages", int64(maxNumber))
		}
	}
	if total != pages(size) {
		return fmt.Errorf("runs of %d pages for %d bytes", total, size)
	}
	return nil
}
