package image

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// suspends is how often a session of a simulation is suspended: 1,000 times in the
// long run.
func suspends() int {
	if os.Getenv("DIAPAUSE_LONG") != "" {
		return 1000
	}
	return 60
}

// keptSnapshots is how many snapshots of a session retention keeps in a
// simulation.
const keptSnapshots = 5

// simulation is a session that is suspended again and again, its older snapshots
// being deleted.
type simulation struct {
	*fixture
	random  *rand.Rand
	memory  []byte
	budget  Budget
	head    Head
	base    *Base
	headers []schemas.ImageHeader // that are kept
	full    int64                 // bytes of the packs of one full image

	most, mostPacks, fulls int     // of what a head needed: percent of full, packs; full images
	written                float64 // full images' worth of content
}

func newSimulation(t *testing.T, pages int, budget Budget) *simulation {
	s := &simulation{fixture: newFixture(t), random: rand.New(rand.NewPCG(7, 8)), memory: memory(pages * PageSize), budget: budget}
	s.suspend()
	s.full, s.most, s.written = packBytes(s.headers[0]), 0, 0
	return s
}

func packBytes(h schemas.ImageHeader) (sum int64) {
	for _, p := range h.Packs {
		sum += p.Size
	}
	return sum
}

// change gives a share of the pages another content.
func (s *simulation) change(share float64) {
	pages := len(s.memory) / PageSize
	for range max(1, int(share*float64(pages))) {
		i := s.random.IntN(pages)
		fillPage(s.memory[i*PageSize:(i+1)*PageSize], i, s.random.Uint64())
	}
}

func (s *simulation) suspend() {
	s.Helper()
	o := s.next(s.head, s.base)
	if s.base == nil {
		o = s.options()
	}
	o.Budget, o.Dense = s.budget, true
	o.cuts = cuts{frame: 8, pages: 64, bytes: 1 << 20}
	w, head, stats := s.write(o, []item{fileItem("criu/pages-1.img", s.memory)})
	s.head, s.base = head, w.Base()
	s.headers = append(s.headers, w.header)
	if stats.Full {
		s.fulls++
	}
	if s.full > 0 {
		s.most = max(s.most, int(packBytes(w.header)*100/s.full))
		s.written += float64(stats.NewBytes) / float64(len(s.memory))
	}
	s.mostPacks = max(s.mostPacks, len(w.header.Packs))
	s.retain()
}

// retain deletes what no snapshot needs that is kept.
func (s *simulation) retain() {
	if len(s.headers) <= keptSnapshots {
		return
	}
	old := s.headers[0]
	s.headers = s.headers[1:]
	needed := map[string]bool{}
	for _, h := range s.headers {
		for _, p := range h.Packs {
			needed[p.Name] = true
		}
	}
	place := lineage{old.Tenant, old.Lineage}
	for _, p := range old.Packs {
		if needed[p.Name] {
			continue
		}
		for _, name := range []string{place.pack(p.Name), place.ids(p.Name)} {
			if err := s.store.Delete(s.Context(), name); err != nil {
				s.Fatal(err)
			}
		}
	}
	if err := s.store.Delete(s.Context(), place.snap(old.Epoch, old.Seq)); err != nil {
		s.Fatal(err)
	}
}

// kept is the size of all packs in the store, in percent of one full image.
func (s *simulation) kept() int {
	sizes := map[string]int64{}
	for _, h := range s.headers {
		for _, p := range h.Packs {
			sizes[p.Name] = p.Size
		}
	}
	var sum int64
	for _, size := range sizes {
		sum += size
	}
	return int(sum * 100 / s.full)
}

// For every share of a session that changes between its suspends, what its image needs
// stays within twice a full one, and a resume has a bounded number of packs to open.
func TestBudgetHolds(t *testing.T) {
	for what, share := range map[string]float64{"a hundredth": 0.01, "a tenth": 0.1} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, 400, Budget{})
			for i := range suspends() {
				s.change(share)
				s.suspend()
				// What retention keeps is the changes of the snapshots it keeps.
				if limit := 200 + int(2*keptSnapshots*share*100); s.kept() > limit {
					t.Fatalf("after %d suspends the store has %d %% of a full image, the limit is %d", i, s.kept(), limit)
				}
			}
			s.check(s.head, []item{fileItem("criu/pages-1.img", s.memory)})
			t.Logf("at most %d %% of a full image in %d packs; %.3f of an image written each time; %d full", s.most, s.mostPacks, s.written/float64(suspends()), s.fulls-1)
			if s.most > 200 {
				t.Errorf("an image needed %d %% of a full one", s.most)
			}
			if s.mostPacks > DefaultBudget.MaxPacks+len(s.memory)/PageSize/64+1 {
				t.Errorf("an image needed %d packs", s.mostPacks)
			}
		})
	}
}

// A budget of few packs makes full images, one that asks for much life rewrites.
func TestBudgetIsASetting(t *testing.T) {
	few := newSimulation(t, 64, Budget{MaxPacks: 3, MinLive: 0.01})
	lively := newSimulation(t, 64, Budget{MinLive: 0.95})
	lazy := newSimulation(t, 64, Budget{MinLive: 0.01})
	for range 12 {
		for _, s := range []*simulation{few, lively, lazy} {
			s.change(0.1)
			s.suspend()
		}
	}
	if few.mostPacks > 4 || few.fulls < 3 {
		t.Errorf("a budget of 3 packs: %d packs, %d full images", few.mostPacks, few.fulls)
	}
	if lively.written <= lazy.written || lively.mostPacks >= lazy.mostPacks {
		t.Errorf("packs kept lively: %.2f written in %d packs; lazily: %.2f in %d", lively.written, lively.mostPacks, lazy.written, lazy.mostPacks)
	}
	for _, s := range []*simulation{few, lively, lazy} {
		s.check(s.head, []item{fileItem("criu/pages-1.img", s.memory)})
	}
	if !slices.ContainsFunc(few.headers, func(h schemas.ImageHeader) bool { return len(h.Packs) == 1 }) {
		t.Error("no full image is among the kept ones")
	}
}
