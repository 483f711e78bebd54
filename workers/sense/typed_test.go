package sense

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// told keeps what is published.
type told struct{ all []int64 }

func (b *told) Activity(_ context.Context, n schemas.Name, k schemas.Kind, key string, a schemas.Activity) (uint64, error) {
	if n.String() == "acme/work" && k == schemas.KindOutput && key == schemas.KeyCommands {
		b.all = append(b.all, a.Commands)
	}
	return uint64(len(b.all)), nil
}

// How many commands were typed is said when there are more, not more often than every few seconds, and not without end.
func TestCount(t *testing.T) {
	t.Parallel()
	bus := &told{}
	s := New(Options{Host: "h", Bus: bus, Log: slog.New(slog.DiscardHandler)})
	v := statekv.Versioned{SessionRecord: schemas.SessionRecord{Tenant: "acme", Session: "work", UID: "u"}}
	begin := time.Now()
	for _, c := range []struct {
		after    time.Duration
		commands int64
	}{{0, 0}, {time.Second, 3}, {2 * time.Second, 4}, {12 * time.Second, 4}, {30 * time.Second, 4}, {60 * time.Second, 300}, {90 * time.Second, 400}} {
		look := sighting{at: begin.Add(c.after), seen: driver.Observation{Commands: c.commands}, typed: s.observed["u"].typed}
		s.observed["u"] = look
		s.count(t.Context(), v, look)
	}
	if len(bus.all) != 3 || bus.all[0] != 3 || bus.all[1] != 4 || bus.all[2] != maxTyped {
		t.Errorf("it says %v", bus.all)
	}
}
