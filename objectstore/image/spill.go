package image

import (
	"fmt"
	"sync"
)

// spill keeps decoded pages that are needed again when their frame leaves the cache.
// Its methods do nothing on nil.
type spill struct {
	limit int64

	mu    sync.Mutex
	uses  [][]uint32 // of each pack: how often each page is still needed
	needs [][]uint32 // of each pack: how many uses of its pages each frame has left
	pages map[pageSpot][]byte
}

// errSpilled says that a page was kept. Another goroutine that wants its frame makes it.
var errSpilled = fmt.Errorf("%w: its page was kept meanwhile", errStore)

// pageSpot names a page: the pack's place in the index, the page's in the pack.
type pageSpot struct {
	pack int32
	page int64
}

// Sequence says that the entries of these names are going to be opened and read from their
// beginning to their end in this order, once each, and nothing else with Open. Pages that are
// needed again later are kept, of at most limit bytes; beyond that their frames are decoded
// again, and Times counts it. It is called before the first Open. A wrong order costs time
// alone.
func (r *Reader) Sequence(names []string, limit int64) {
	s := &spill{limit: limit, pages: map[pageSpot][]byte{}, uses: make([][]uint32, len(r.packs)), needs: make([][]uint32, len(r.packs))}
	var files []*file
	for _, name := range names {
		f, err := r.file(name)
		if err != nil {
			continue // Open says it
		}
		files = append(files, f)
		f.stretches(func(id frameID, page, count, _ int64) {
			p := r.packs[id.pack]
			if s.uses[id.pack] == nil {
				s.uses[id.pack] = make([]uint32, p.ref.Pages)
				s.needs[id.pack] = make([]uint32, len(p.frames))
			}
			s.needs[id.pack][id.frame] += uint32(count)
			first := p.frames[id.frame].page + page
			for i := range s.uses[id.pack][first : first+count] {
				s.uses[id.pack][first+int64(i)]++
			}
		})
	}
	r.plan(files)
	r.spill = s
	r.frames.evicted = func(id frameID, data []byte) { s.save(id, r.packs[id.pack].frames[id.frame], data) }
}

// Kept is how much a Sequence of these entries keeps at most, so that no frame is decoded
// twice, in bytes. What is in the frames that are decoded ahead isn't counted.
func (r *Reader) Kept(names []string) int64 {
	// last is where in the sequence each page of a pack is used last, in pages.
	last := make([][]uint32, len(r.packs))
	var length int64
	each := func(fn func(id frameID, first, count, at int64)) {
		length = 0
		for _, name := range names {
			f, err := r.file(name)
			if err != nil {
				continue // Open says it
			}
			f.stretches(func(id frameID, page, count, at int64) {
				fn(id, r.packs[id.pack].frames[id.frame].page+page, count, length+at)
			})
			length += pages(f.size)
		}
	}
	each(func(id frameID, first, count, at int64) {
		if last[id.pack] == nil {
			last[id.pack] = make([]uint32, r.packs[id.pack].ref.Pages)
		}
		for i := range count {
			last[id.pack][first+i] = uint32(at + i)
		}
	})
	// A page is kept from where its frame is decoded to where it is used last.
	change := make([]int64, length/frameCachePages+2) // of pages kept, by part of the sequence
	decoded := map[frameID]bool{}
	each(func(id frameID, _, _, at int64) {
		if decoded[id] {
			return
		}
		decoded[id] = true
		f := r.packs[id.pack].frames[id.frame]
		for _, until := range last[id.pack][f.page : f.page+f.pages] {
			if from, to := at/frameCachePages, int64(until)/frameCachePages; to > from {
				change[from+1]++
				change[to+1]--
			}
		}
	})
	var kept, most int64
	for _, n := range change {
		kept += n
		most = max(most, kept)
	}
	return most * PageSize
}

// frameCachePages is how many pages of a sequence are in the cache of frames at least, while
// they go by in order.
const frameCachePages = frameCache / PageSize / 4

// save keeps those pages of a frame that are still needed, as long as there is room.
func (s *spill) save(id frameID, f frame, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uses := s.uses[id.pack]
	if uses == nil {
		return
	}
	for i := range f.pages {
		if int64(len(s.pages)+1)*PageSize > s.limit {
			return
		}
		at := pageSpot{id.pack, f.page + i}
		if uses[at.page] > 0 && s.pages[at] == nil {
			page := make([]byte, PageSize)
			copy(page, data[i*PageSize:])
			s.pages[at] = page
		}
	}
}

// page gives a page that was kept, nil if it wasn't.
func (s *spill) page(pack int32, page int64) []byte {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages[pageSpot{pack, page}]
}

// used counts one use of each page of a frame, from the page-th of the pack on, and reports
// whether none of the frame is needed any more.
func (s *spill) used(id frameID, page, count int64) (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uses := s.uses[id.pack]
	if uses == nil {
		return false
	}
	for i := page; i < page+count; i++ {
		if uses[i] == 0 {
			continue
		}
		if uses[i]--; uses[i] == 0 {
			delete(s.pages, pageSpot{id.pack, i})
		}
		if s.needs[id.pack][id.frame]--; s.needs[id.pack][id.frame] == 0 {
			over = true
		}
	}
	return over
}

// held is what is kept, in bytes.
func (s *spill) held() int64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.pages)) * PageSize
}
