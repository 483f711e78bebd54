package image

import (
	"fmt"
	"io"
)

// AddStamped appends a file as Add does, but for content that the parent image has
// under the same stamp: that is referred to without being read, and open isn't called.
// The stamp is the caller's proof that content is the same: who gives one stamp to two
// contents gets an image with the wrong one. An empty stamp is no proof, and neither is
// kept nor looked for. A size of -1 is that of the content. The next image of the
// lineage, made with this one's Base, finds the stamps of this one.
func (w *Writer) AddStamped(e Entry, stamp string, open func() (io.ReadCloser, error)) error {
	if x, size, ok := w.same(e, stamp); ok {
		return w.addSame(e, stamp, size, x)
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := w.Add(e, r); err != nil {
		return err
	}
	w.stamped(len(w.entries)-1, stamp)
	return nil
}

// same finds the content of a stamp: in what was added ahead, or in the parent.
func (w *Writer) same(e Entry, stamp string) (extents, int64, bool) {
	if stamp == "" || w.err != nil || w.done || e.Type != TypeFile {
		return nil, 0, false
	}
	if a, ok := w.ahead[stamp]; ok {
		return a.content, a.size, e.Size == -1 || e.Size == a.size
	}
	if w.base == nil {
		return nil, 0, false
	}
	s, ok := w.base.stamps[stamp]
	if !ok || e.Size != -1 && e.Size != s.Size {
		return nil, 0, false
	}
	x, ok := w.base.extents(s.Runs, w.opts.Budget)
	return x, s.Size, ok
}

// addSame appends a file whose content is stored already.
func (w *Writer) addSame(e Entry, stamp string, size int64, x extents) error {
	if err := e.check(); err != nil {
		w.err = fmt.Errorf("add entry: %w", err)
		return w.err
	}
	e.Size = size
	w.entries = append(w.entries, e)
	w.content = append(w.content, x)
	w.stats.LogicalBytes += size
	n := pages(size)
	w.stats.Pages += n
	w.stats.MatchedPages += n
	w.stamped(len(w.entries)-1, stamp)
	return nil
}

// Knows reports whether the parent image has content under a stamp.
func (w *Writer) Knows(stamp string) bool {
	if w.base == nil {
		return false
	}
	_, ok := w.base.stamps[stamp]
	return ok
}

func (w *Writer) stamped(entry int, stamp string) {
	if stamp == "" {
		return
	}
	if w.stamps == nil {
		w.stamps = map[int]string{}
	}
	w.stamps[entry] = stamp
}

// ahead is content that was stored before it has an entry.
type ahead struct {
	content extents
	size    int64
}

// AddAhead stores content that a later AddStamped of the same stamp may refer to, and
// is in no entry before. It returns whether it read it: the parent may have it, and an
// empty stamp finds nothing. After an error the image can only be aborted.
func (w *Writer) AddAhead(stamp string, size int64, open func() (io.ReadCloser, error)) (bool, error) {
	if _, _, ok := w.same(Entry{Type: TypeFile, Size: size}, stamp); ok || stamp == "" || w.err != nil || w.done {
		return false, w.err
	}
	r, err := open()
	if err != nil {
		return false, err
	}
	defer r.Close()
	var x extents
	n, err := w.read(&x, &shortened{r, size}, -1)
	if err != nil {
		w.err = fmt.Errorf("store content ahead: %w", err)
		return false, w.err
	}
	if n != size {
		return true, nil // it is being changed
	}
	if w.ahead == nil {
		w.ahead = map[string]ahead{}
	}
	w.ahead[stamp] = ahead{x, size}
	return true, nil
}

// shortened ends a file where it can't be read any further, and one that grows where
// it ended at first. What was read is used only if the file proves to be the same
// later.
type shortened struct {
	r    io.Reader
	left int64
}

func (s *shortened) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// SkipHole implements HoleSkipper for a reader that is one.
func (s *shortened) SkipHole() (int64, error) {
	n, err := skip(s.r)
	s.left -= n
	return n, err
}

// keptStamp is a file of the snapshot whose content a stamp proves.
type keptStamp struct {
	Size int64 `json:"size"`
	Runs []run `json:"runs,omitempty"`
}

// extents turns a file's runs into page numbers. ok is false if one of the packs isn't
// worth referring to any more.
func (b *Base) extents(runs []run, budget Budget) (x extents, ok bool) {
	for _, r := range runs {
		switch {
		case r[0] == zeroPack:
			x.add(zeros, uint32(r[2]))
		case !b.packs[r[0]].worth(budget):
			return nil, false
		default:
			x.add(b.packs[r[0]].first+uint32(r[1]), uint32(r[2]))
		}
	}
	return x, true
}

// keepStamps takes over which stamps the files of a committed image had.
func (b *Base) keepStamps(w *Writer) {
	if len(b.packs) != len(w.result.packs) {
		return // it left packs out, and the runs count them
	}
	b.stamps = make(map[string]keptStamp, len(w.stamps))
	for entry, stamp := range w.stamps {
		b.stamps[stamp] = keptStamp{w.entries[entry].Size, w.result.runs[entry]}
	}
}

// Restamp says that a file was made of an entry, and what proves that it still has its
// content: the same as a stamp of AddStamped. A Base of the image takes it over by Restamp.
func (r *Reader) Restamp(name, stamp string) {
	r.stampsMu.Lock()
	defer r.stampsMu.Unlock()
	if r.stamps == nil {
		r.stamps = map[string]string{}
	}
	r.stamps[name] = stamp
}

// Restamped reports whether the reader was told of any file.
func (r *Reader) Restamped() bool {
	r.stampsMu.Lock()
	defer r.stampsMu.Unlock()
	return len(r.stamps) > 0
}

// Restamp takes over what a reader of the same snapshot was told of the files that were
// made of it, in the place of the files that it was made of: these are elsewhere, or gone.
func (b *Base) Restamp(r *Reader) {
	if b.head != r.head || len(b.packs) != len(r.header.Packs) {
		return
	}
	r.stampsMu.Lock()
	defer r.stampsMu.Unlock()
	stamps := make(map[string]keptStamp, len(r.stamps))
	for name, stamp := range r.stamps {
		i, ok := r.byName[name]
		if !ok || r.index.entries[i].Type != TypeFile || stamp == "" {
			continue
		}
		stamps[stamp] = keptStamp{r.index.entries[i].Size, r.index.runs[i]}
	}
	b.stamps = stamps
}

// checkStamps refuses kept files that lead out of the packs.
func (b *Base) checkStamps() error {
	for stamp, s := range b.stamps {
		var n int64
		for _, r := range s.Runs {
			if r[0] < zeroPack || r[0] >= int64(len(b.packs)) || r[1] < 0 || r[2] <= 0 {
				return fmt.Errorf("%w: file %q", errKept, stamp)
			}
			if r[0] != zeroPack && r[1]+r[2] > b.packs[r[0]].Pages {
				return fmt.Errorf("%w: file %q", errKept, stamp)
			}
			n += r[2]
		}
		if n != pages(s.Size) {
			return fmt.Errorf("%w: file %q", errKept, stamp)
		}
	}
	return nil
}
