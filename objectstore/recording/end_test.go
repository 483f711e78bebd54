package recording

import (
	"errors"
	"strings"
	"testing"
)

// What is no segment, or of someone else, hides none that is genuine.
func TestTip(t *testing.T) {
	b := newBench(t)
	b.put(b.run(1), 1, nil, 0, out(0, "one"))
	for number := range uint64(3) {
		if err := b.store.Put(t.Context(), place.Name(b.run(9), number+1), strings.NewReader("junk"), 4); err != nil {
			t.Fatal(err)
		}
	}
	if c := b.follow(nil); text(b.events(c)) != "one" || c.Why != nil || !errors.Is(c.After, ErrCorrupt) {
		t.Errorf("it is %q, %v, %v", text(b.events(c)), c.Why, c.After)
	}
}

// Of a part of a recording no more is read than it needs.
func TestPart(t *testing.T) {
	b := newBench(t)
	one := b.put(b.run(1), 1, nil, 0, out(0, "one "))
	two := b.put(b.run(1), 2, &one, 4, out(10, "two "))
	three := b.put(b.run(1), 3, &two, 8, out(20, "three "))
	b.put(b.run(1), 4, &three, 14, out(30, "four"))
	for _, p := range []struct {
		Part
		want string
	}{{Part{}, "one two three four"}, {Part{Since: at(25)}, "three four"}, {Part{Since: at(99)}, "four"}, {Part{Most: 2}, "three four"}} {
		c, err := Follow(t.Context(), b.store, place, nil, p.Part, trusts)
		if err != nil || c.Why != nil || text(b.events(c)) != p.want {
			t.Errorf("%+v is %q, %v, %v", p.Part, text(b.events(c)), c.Why, err)
		}
	}
}
