package stream

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestRoomOf(t *testing.T) {
	for version, want := range map[string]uint64{"2.11.4": roomBefore, "2.14.9": roomBefore, "2.15.0": roomSince, "2.15.2-dev": roomSince, "3.0.1": roomSince, "": roomBefore, "x": roomBefore} {
		if got := roomOf(version); got != want {
			t.Errorf("%q has room for %d, want %d", version, got, want)
		}
	}
}

func TestIsProbe(t *testing.T) {
	for subject, want := range map[string]bool{
		schemas.SubjectStored + ".3.~.x.probe": true, schemas.SubjectStored + ".3.acme.x.input": false,
		schemas.SubjectStored + ".3.~x.y.probe": false, schemas.SubjectStored + ".3": false, schemas.SubjectStored + ".3.acme.~.input": false,
	} {
		if got := isProbe(subject); got != want {
			t.Errorf("%s: %v, want %v", subject, got, want)
		}
	}
}

// More than fits between a probe and the one after the next is a gap, and no less is.
func TestStoredProbes(t *testing.T) {
	for _, c := range []struct {
		seqs []uint64
		late int // the probe that took long; -1 if none did
		gaps int
	}{
		{[]uint64{1, 2, 3, 4}, -1, 0},
		{[]uint64{1, roomBefore, 2 * roomBefore}, -1, 1},
		{[]uint64{1, roomBefore / 2, roomBefore}, -1, 0},
		{[]uint64{1, roomBefore / 2, roomBefore + 1}, -1, 1},
		{[]uint64{5 * roomBefore, 5*roomBefore + 9}, -1, 0}, // what was before the first isn't known
		{[]uint64{1, 2, 3}, 1, 1},
	} {
		gaps := 0
		p := probe{at: &reach{fn: func(h Heard) {
			if h.Gap {
				gaps++
			}
		}}}
		for i, seq := range c.seqs {
			p.stored(seq, i == c.late, "2.11.0")
		}
		if gaps != c.gaps {
			t.Errorf("%v: %d gaps, want %d", c.seqs, gaps, c.gaps)
		}
	}
}
