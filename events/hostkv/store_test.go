package hostkv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Writers that change one order at once each see the others' changes: none is lost.
func TestUpdatesAreSwaps(t *testing.T) {
	js := natstest.Streams(t)
	s, err := hostkv.Open(t.Context(), js, stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := s.Update(t.Context(), "a", func(o *schemas.HostOrder) (bool, error) {
				o.By += fmt.Sprint(i)
				return true, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.Get(t.Context(), "a")
	if err != nil || len(got.By) != 8 || got.Version != 8 || got.Since.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	refused := errors.New("refused")
	if _, err := s.Update(t.Context(), "a", func(*schemas.HostOrder) (bool, error) { return true, refused }); !errors.Is(err, refused) {
		t.Errorf("a change that is refused: %v", err)
	}
	if again, err := s.Get(t.Context(), "a"); err != nil || again != got {
		t.Errorf("it was written: %+v, %v", again, err)
	}
}

// A cache knows what it wrote at once, and what others wrote soon.
func TestCache(t *testing.T) {
	js := natstest.Streams(t)
	cordon := func(o *schemas.HostOrder) (bool, error) { o.Cordoned = true; return true, nil }
	s, err := hostkv.Open(t.Context(), js, stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), "before", cordon); err != nil {
		t.Fatal(err)
	}
	c := hostkv.NewCache(js, stream.NamesWith(""), nil)
	if c.Load(t.Context()); !c.Order("before").Cordoned || c.Order("other").Cordoned {
		t.Error("loaded: ", c.All())
	}
	if _, err := c.Update(t.Context(), "mine", cordon); err != nil || !c.Order("mine").Cordoned {
		t.Error("its own: ", c.All(), err)
	}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	wg.Go(func() {
		if err := c.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer stop()
	changed := c.Changed()
	if _, err := s.Update(t.Context(), "theirs", cordon); err != nil {
		t.Fatal(err)
	}
	for !c.Order("theirs").Cordoned {
		<-changed
		changed = c.Changed()
	}
	var none *hostkv.Cache
	if none.Order("a").Cordoned || none.All() != nil {
		t.Error("no cache has orders")
	}
}
