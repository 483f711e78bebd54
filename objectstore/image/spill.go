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
	s := &spill{limit: limit, pages: map[pageSpot][]byte{}, uses: make([][]uint32, len(r.packs))}
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
			}
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

// used counts one use of each page.
func (s *spill) used(pack int32, page, count int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uses := s.uses[pack]
	if uses == nil {
		return
	}
	for i := page; i < page+count; i++ {
		if uses[i] > 0 {
			uses[i]--
		}
		if uses[i] == 0 {
			delete(s.pages, pageSpot{pack, i})
		}
	}
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
