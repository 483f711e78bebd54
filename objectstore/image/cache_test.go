package image

import (
	"fmt"
	"runtime"
	"testing"
)

// A goroutine that waited for a failed fetch of another tries again itself.
func TestCacheOwn(t *testing.T) {
	c := newCache[int](100, newBuffers())
	failed := fmt.Errorf("%w: connection lost", errStore)
	for key := range 1000 {
		s, mine := c.claim(key)
		if !mine {
			t.Fatalf("%d is there already", key)
		}
		got := make(chan error, 1)
		go func() {
			s, mine, err := c.own(key)
			if mine {
				c.finish(s, []byte{1}, nil)
			}
			got <- err
		}()
		if key%2 == 0 {
			runtime.Gosched()
		}
		c.finish(s, nil, failed)
		if err := <-got; err != nil {
			t.Fatalf("%d: %v", key, err)
		}
	}
}

// Who waits for a value gets it, also if it leaves the cache before the waiter looks.
func TestCacheKeepsWhatIsClaimed(t *testing.T) {
	c := newCache[int](1, newBuffers())
	making, _ := c.claim(1)
	waiting, mine := c.claim(1)
	if mine {
		t.Fatal("two goroutines make one value")
	}
	c.finish(making, []byte{1}, nil)
	c.release(making)
	other, _ := c.claim(2)
	c.finish(other, []byte{2}, nil)
	if c.peek(1) != nil {
		t.Fatal("the value didn't leave the cache")
	}
	s, mine, err := c.settle(waiting, mine)
	if err != nil || mine || s.data[0] != 1 {
		t.Errorf("the waiter is given %v, mine %t, %v", s, mine, err)
	}
}
