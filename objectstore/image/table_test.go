package image

import (
	"math/rand/v2"
	"testing"
)

func TestPageTable(t *testing.T) {
	var table pageTable
	want := map[pageID]uint32{}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range uint32(50_000) {
		var id pageID
		id[0], id[1], id[9] = byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()) // some come twice, many hash alike
		if _, known := want[id]; !known {
			want[id] = n
		}
		table.add(id)
	}
	for id, n := range want {
		if got, ok := table.find(id); !ok || got != n {
			t.Fatalf("%x: page %d, %v; want %d", id, got, ok, n)
		}
	}
	for range 1000 {
		id := pageID{0, 0, 1, byte(r.Uint32())}
		if n, ok := table.find(id); ok {
			t.Fatalf("%x was never added and is page %d", id, n)
		}
	}
	if _, ok := new(pageTable).find(pageID{1}); ok {
		t.Error("an empty table holds a page")
	}
}
