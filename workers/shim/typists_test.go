package shim

import (
	"errors"
	"fmt"
	"net"
	"testing"
)

// Of two connections of one typist the later one counts, and nothing is taken twice.
func TestTypistsLastConnectionCounts(t *testing.T) {
	var all typists
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	term := testTerminal(t)
	if taken, err := all.come("me", 0, false, a); taken != 0 || err != nil {
		t.Errorf("%d bytes are taken of one who never came, %v", taken, err)
	}
	if n, err := all.take("me", a, term.masterFD, []byte("ab\n")); n != 3 || err != nil {
		t.Errorf("%d bytes taken, %v", n, err)
	}
	if taken, err := all.come("me", 0, true, b); taken != 3 || err != nil {
		t.Errorf("%d bytes are taken, %v", taken, err)
	}
	if _, err := all.take("me", a, term.masterFD, []byte("c")); !errors.Is(err, errSuperseded) {
		t.Errorf("from the old connection: %v", err)
	}
	var again typists
	again.load(all.save())
	if taken, err := again.come("me", 5, true, a); taken != 5 || err != nil {
		t.Errorf("after a restore %d are taken, he has forgotten 5: %v", taken, err)
	}
}

// However many type at a time, none takes another's place: one too many is refused. Who
// is away makes room, the longest away first, and types nothing twice afterwards.
func TestManyTypists(t *testing.T) {
	var all typists
	term := testTerminal(t)
	conns := make([]net.Conn, typistsKept+2)
	for i := range conns {
		var far net.Conn
		conns[i], far = net.Pipe()
		defer conns[i].Close()
		defer far.Close()
	}
	come := func(i int, again bool) error {
		_, err := all.come(fmt.Sprint("typist", i), 0, again, conns[i])
		return err
	}
	types := func(i int) error {
		_, err := all.take(fmt.Sprint("typist", i), conns[i], term.masterFD, []byte("x"))
		return err
	}
	for i := range typistsKept {
		if err := come(i, false); err != nil {
			t.Fatal(err)
		}
	}
	const late = typistsKept
	if err := come(late, false); !errors.Is(err, errCrowded) {
		t.Errorf("one too many comes: %v", err)
	}
	for i := range typistsKept {
		if err := types(i); err != nil {
			t.Fatalf("typist %d, of as many as there may be: %v", i, err)
		}
	}
	all.leave("typist9", conns[9])
	all.leave("typist4", conns[4])
	all.leave("typist5", conns[late]) // an old connection of one that has come again
	if err := come(late, false); err != nil {
		t.Errorf("another has gone: %v", err)
	}
	if err := come(4, true); err != nil {
		t.Errorf("one that was away for less long than another: %v", err)
	}
	var again typists
	again.load(all.save())
	all.load(again.save())
	if err := come(9, true); !errors.Is(err, errForgotten) {
		t.Errorf("one that was forgotten: %v; what it has typed would come twice", err)
	}
	if err := types(9); !errors.Is(err, errSuperseded) {
		t.Errorf("one that was refused types: %v", err)
	}
	if err := come(typistsKept+1, true); !errors.Is(err, errForgotten) {
		t.Errorf("one that may have been forgotten: %v", err)
	}
	if err := come(typistsKept+1, false); err != nil || len(all.all) != typistsKept {
		t.Errorf("a new one comes after a restore, when none is connected: %v, %d are remembered", err, len(all.all))
	}
}
