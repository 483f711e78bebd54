package worker_test

import (
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/worker"
)

// ring is a keyring that a test changes.
type ring struct {
	mu       sync.Mutex
	readers  image.Readers
	writers  []image.WriterKey
	asked    int      // how often for the readers
	rewraps  []string // sessions whose keys were to be wrapped again
	eachTime func(n int, r *image.Readers)
}

func (r *ring) Readers(context.Context, schemas.Tenant) (image.Readers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.eachTime != nil {
		r.eachTime(r.asked, &r.readers)
	}
	return r.readers, nil
}

func (r *ring) Sealers(ctx context.Context, t schemas.Tenant) ([]age.Recipient, string, error) {
	to, err := r.Readers(ctx, t)
	return to.Recipients, "word", err
}

func (r *ring) Writers(context.Context, schemas.Tenant) func(tenant, signer string) []image.WriterKey {
	return func(string, string) []image.WriterKey {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.writers)
	}
}

func (r *ring) Lineage(_ context.Context, v statekv.Versioned) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rewraps = append(r.rewraps, v.Name().String())
	return nil
}

// set changes it while a worker may look.
func (r *ring) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// withRing runs a worker that asks a keyring.
func (b *bench) withRing() *ring {
	b.t.Helper()
	r := &ring{
		readers: image.Readers{Recipients: []age.Recipient{b.key.Recipient()}, Version: 1},
		writers: []image.WriterKey{{Key: b.signer.Public().(ed25519.PublicKey)}},
	}
	b.workWith(b.ringOptions(r))
	return r
}

func (b *bench) ringOptions(r *ring) worker.Options {
	o := b.options()
	o.Keyring, o.Recipients, o.Trusted = r, nil, nil
	return o
}

// A host whose key is revoked resumes what had been recorded before, and writes
// nothing any more: its sessions run on.
func TestRevokedHost(t *testing.T) {
	b := newBench(t)
	r := b.withRing()
	b.asked("count")
	b.until("running", running)
	b.suspend(false)
	v := b.until("suspended", suspended)
	r.set(func() { r.writers[0].Revoked = time.Now().Add(time.Hour) }) // by the log's clock, which is this machine's
	b.resume()
	b.until("running", running)
	b.suspend(false)
	failed := b.until("running again", func(v statekv.Versioned) bool { return v.Transition.Type == schemas.TSuspendFailed })
	if !strings.Contains(failed.Transition.Reason, "trust the signing key of host h") {
		t.Errorf("the reason is %q", failed.Transition.Reason)
	}
	b.isOnHost(v.UID, driver.Running)
}

// An image that was recorded after its writer was revoked is refused, and stays.
func TestRevokedBeforeItWasRecorded(t *testing.T) {
	b := newBench(t)
	r := b.withRing()
	b.asked("count")
	b.until("running", running)
	b.suspend(false)
	v := b.until("suspended", suspended)
	r.set(func() { r.writers[0].Revoked = time.Now().Add(-time.Hour) })
	b.resume()
	failed := b.until("suspended again", made(schemas.TResumeFailed))
	if !strings.Contains(failed.Transition.Reason, "not known") && !strings.Contains(failed.Transition.Reason, "not trusted") {
		t.Errorf("the reason is %q", failed.Transition.Reason)
	}
	if *failed.Head != *v.Head {
		t.Error("the head is another one")
	}
	r.set(func() { r.writers[0].Revoked = time.Time{} })
	b.resume()
	b.until("running", running)
	b.folded()
}

// Readers who change while an image is written: its keys are looked after then.
func TestReadersChangeMeanwhile(t *testing.T) {
	b := newBench(t)
	r := b.withRing()
	b.asked("count")
	b.until("running", running)
	b.suspend(false)
	b.until("suspended", suspended)
	b.resume()
	b.until("running", running)
	r.set(func() {
		if len(r.rewraps) > 0 {
			t.Errorf("rewraps %v, though nothing changed", r.rewraps)
		}
		first := r.asked
		r.eachTime = func(n int, readers *image.Readers) {
			if n > first+1 {
				readers.Version = 2
			}
		}
	})
	b.suspend(false)
	b.until("suspended", suspended)
	b.crash() // which waits for what it does after that
	if !slices.Equal(r.rewraps, []string{"work"}) {
		t.Errorf("rewraps %v, want one", r.rewraps)
	}
}

// A host without identities of readers starts sessions, writes their images, and
// says that it can't open them.
func TestSuspendOnly(t *testing.T) {
	b := newBench(t)
	r := &ring{writers: []image.WriterKey{{Key: b.signer.Public().(ed25519.PublicKey)}}}
	other, err := age.GenerateX25519Identity()
	b.must(err)
	r.readers = image.Readers{Recipients: []age.Recipient{other.Recipient()}, Version: 1}
	o := b.ringOptions(r)
	o.Own, o.Identities = o.Identities, nil
	b.workWith(o)
	b.asked("count")
	b.until("running", running)
	b.suspend(false)
	b.until("suspended", suspended)
	b.resume()
	failed := b.until("suspended again", made(schemas.TResumeFailed))
	if !strings.Contains(failed.Transition.Reason, "no identity that opens an image") || failed.Failure.Kind != string(driver.Refused) {
		t.Errorf("the failure is %+v", failed.Failure)
	}
	o.Identities = []age.Identity{other}
	b.workWith(o)
	b.resume()
	b.until("running", running)
}

// Shredding tells every host, names those that don't answer, and leaves nothing.
func TestShred(t *testing.T) {
	b := newBench(t)
	b.run()
	b.suspend(false)
	v := b.until("suspended", suspended)
	hosts, err := b.js.KeyValue(b.ctx, b.names.Hosts())
	b.must(err)
	for _, host := range []string{"there", "gone"} {
		_, err := hosts.PutString(b.ctx, host, "{}")
		b.must(err)
	}
	told := make(chan string, 1)
	_, err = b.nc.Subscribe(schemas.SubjectHost+".there.forget", func(m *nats.Msg) {
		told <- string(m.Data)
		_ = m.Respond(nil) // without it the reason says so
	})
	b.must(err)
	op := b.op(schemas.OpRemove)
	op.Shred = true
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: op}})
	last := b.until("shredded", made(schemas.TShredded))
	if uid := <-told; uid != string(v.UID) {
		t.Errorf("the other host was told of %q", uid)
	}
	if !strings.Contains(last.Transition.Reason, "forgotten by h, there; no answer from gone") {
		t.Errorf("the reason is %q", last.Transition.Reason)
	}
	if last.Spec != "" || last.Head != nil || last.Op != nil {
		t.Errorf("the record keeps %+v", last.SessionRecord)
	}
	if left := b.objects("default/"); len(left) > 0 {
		t.Errorf("left in the store: %v", left)
	}
	b.folded()
}

// A session that was shredded while this host was down: it forgets at its start, and
// keeps what it has of the others.
func TestForgottenAtStart(t *testing.T) {
	b := newBench(t)
	o := b.options()
	o.Pages = t.TempDir()
	b.workWith(o)
	b.asked("count")
	b.until("running", running)
	b.suspend(false)
	v := b.until("suspended", suspended)
	b.crash()
	stranger := filepath.Join(o.Pages, "stranger.0123.ids")
	b.must(os.WriteFile(stranger, []byte("ids"), 0o600))
	b.workWith(o)
	kept, err := filepath.Glob(filepath.Join(o.Pages, "*"))
	b.must(err)
	if len(kept) != 1 || !strings.Contains(kept[0], string(v.UID)) {
		t.Errorf("kept %v, want those of %s alone", kept, v.UID)
	}
}
