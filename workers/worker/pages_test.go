package worker_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/worker"
)

// checkpoint takes one and gives what of it was new.
func (b *bench) checkpoint() (statekv.Versioned, int64) {
	b.t.Helper()
	op := b.op(schemas.OpCheckpoint)
	b.change(schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: op}})
	v := b.until("a checkpoint", func(v statekv.Versioned) bool {
		return v.Transition.Type == schemas.TCheckpointed && v.Transition.Op == op.ID
	})
	return v, v.Size.New
}

// suspendOnly is a worker that can read no image, and keeps page ids in pages.
func (b *bench) suspendOnly(pages string) worker.Options {
	o := b.options()
	o.Own, o.Identities, o.Pages = o.Identities, nil, pages
	other, err := age.GenerateX25519Identity()
	b.must(err)
	o.Recipients = []age.Recipient{other.Recipient()}
	return o
}

// A worker that can't read images matches against what it kept, after it was
// started again, too; against nothing that isn't as it was put there.
func TestKeptPages(t *testing.T) {
	b := newBench(t)
	o := b.suspendOnly(t.TempDir())
	b.workWith(o)
	b.asked("count", strings.Repeat("as it was ", 2000))
	v := b.until("running", running)
	b.isOnHost(v.UID, "running")
	v, full := b.checkpoint()
	b.workWith(o)
	if _, again := b.checkpoint(); again >= full/2 {
		t.Errorf("the first image has %d new bytes, the one after a restart %d", full, again)
	}
	files, err := os.ReadDir(o.Pages)
	b.must(err)
	if len(files) != 1 {
		t.Fatalf("it keeps %v", files)
	}
	name := filepath.Join(o.Pages, files[0].Name())
	data, err := os.ReadFile(name)
	b.must(err)
	if bytes.Contains(data, []byte(v.Lineage)) {
		t.Error("what is kept is in clear")
	}
	data[len(data)/2] ^= 1
	b.must(os.WriteFile(name, data, 0o600))
	if _, new := b.checkpoint(); new < full {
		t.Errorf("damaged ids were matched: %d new bytes, want %d", new, full)
	}
	if _, new := b.checkpoint(); new >= full/2 {
		t.Errorf("%d new bytes after it kept others", new)
	}
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: b.op(schemas.OpRemove)}})
	b.until("removed", made(schemas.TRemoved))
	if files, err = os.ReadDir(o.Pages); err != nil || len(files) != 0 {
		t.Errorf("kept of a session that is removed: %v, %v", files, err)
	}
}
