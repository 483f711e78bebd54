package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// Use of what is archived resumes nothing, whether it is heard at once or by a scheduler that begins later.
func TestArchivedIsntWoken(t *testing.T) {
	b := newBench(t)
	b.begin()
	b.change(work, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: nuid.Next(), Kind: schemas.OpStart},
		New: &schemas.NewSession{UID: schemas.UID(nuid.Next()), Tenant: work.Tenant, Session: work.Session, Class: "terminal", Lineage: "l", TTY: true},
	}})
	b.change(work, schemas.Transition{Type: schemas.TStarted})
	b.change(work, schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{ID: "x"}}})
	b.suspended(work)
	v := b.change(work, session.Archive(schemas.ArchivedByHand, "asked to archive it", time.Now()))
	other := schemas.Name{Tenant: "acme", Session: "other"}
	for range 2 {
		b.run(other, grace)
		b.change(other, schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{ID: "x"}}})
		b.suspended(other)
		b.say(work, schemas.KindInput, "", schemas.Activity{})
		b.say(other, schemas.KindInput, "", schemas.Activity{})
		b.until(other, schemas.Resuming) // which was heard after the other
		e := b.explained(work, func(e schemas.Explanation) bool { return e.State == schemas.Suspended && e.Heard > 0 })
		if got := b.until(work, schemas.Suspended); got.Version != v.Version || got.Archived == nil || !strings.Contains(e.Text, "it is archived") {
			t.Fatalf("version %d after %d: %q", got.Version, v.Version, e.Text)
		}
		b.change(other, schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: &schemas.Op{ID: "x"}}})
		b.change(other, schemas.Transition{Type: schemas.TRemoved})
		b.end()
		b.begin()
	}
}
