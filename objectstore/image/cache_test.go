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
