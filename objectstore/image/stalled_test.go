package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore"
)

// stalled is a store that never gives one of its objects, as a busy server does.
type stalled struct {
	objectstore.Store
	name string
}

func (m stalled) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if name != m.name {
		return m.Store.Get(ctx, name, offset, length)
	}
	<-ctx.Done()
	return nil, fmt.Errorf("%w (tried until then: %w)", ctx.Err(), errors.New("reduce your request rate"))
}

// A pack that the store never gives is a problem of that pack, and the others are looked
// at all the same.
func TestCheckGoesOnBeyondAPackThatIsNotGiven(t *testing.T) {
	f := newFixture(t)
	w, head, _ := f.write(f.options(), []item{fileItem("criu/a", text(3<<20))})
	f.write(f.next(head, w.Base()), []item{fileItem("criu/a", text(3<<20)), fileItem("criu/b", text(100_000))})
	var packs []string
	for _, name := range f.objects() {
		if strings.Contains(name, "/packs/") && !strings.HasSuffix(name, ".ids.age") {
			packs = append(packs, name)
		}
	}
	if len(packs) < 2 {
		t.Fatalf("there are the packs %v, want two", packs)
	}
	whole := f.survey()
	s, err := Check(f.Context(), stalled{f.store, packs[0]}, Place{"acme", "lin1"}, CheckOptions{
		Trusted: f.trusted, Read: func(string) bool { return true }, Patience: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], packs[0]+" can't be read") || !strings.Contains(s.Problems[0], "request rate") {
		t.Errorf("the problems are %q", s.Problems)
	}
	if s.Packs != whole.Packs || s.Read == 0 {
		t.Errorf("%d packs of %d, %d bytes read", s.Packs, whole.Packs, s.Read)
	}
}
