package keys

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 30 * time.Second

// fleet is a host with its keys, records and images.
type fleet struct {
	*testing.T
	ctx     context.Context
	store   *keykv.Store
	records *statekv.Store
	images  objectstore.Store
	own     *age.X25519Identity
	signer  ed25519.PrivateKey
	keeper  *Keeper
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	t.Cleanup(cancel)
	f := &fleet{T: t, ctx: ctx}
	js, names := natstest.Streams(t), stream.NamesWith("")
	var err error
	f.store, err = keykv.Open(ctx, js, names)
	f.must(err)
	f.records, err = statekv.Open(ctx, js, names)
	f.must(err)
	f.images, err = dir.Open(t.TempDir())
	f.must(err)
	f.own, err = age.GenerateX25519Identity()
	f.must(err)
	_, f.signer, err = ed25519.GenerateKey(nil)
	f.must(err)
	f.must(Register(ctx, f.store, Registration{Host: "h", Signing: f.signer.Public().(ed25519.PublicKey), Recipient: f.own.Recipient().String()}))
	f.keeper = f.keeperWith(f.own)
	return f
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) keeperWith(identities ...age.Identity) *Keeper {
	return NewKeeper(Options{Ring: NewRing(f.store), Records: f.records, Images: f.images, Identities: identities, Host: "h"})
}

func (f *fleet) identity() *age.X25519Identity {
	f.Helper()
	id, err := age.GenerateX25519Identity()
	f.must(err)
	return id
}

// suspended makes a session that has an image.
func (f *fleet) suspended(tenant schemas.Tenant, id schemas.SessionID) statekv.Versioned {
	f.Helper()
	to, word, err := f.keeper.Sealers(f.ctx, tenant)
	f.must(err)
	sealed, err := seal.Seal([]byte("how to start it"), to...)
	f.must(err)
	uid := schemas.UID("uid-" + string(id))
	v, err := f.records.Swap(f.ctx, statekv.Versioned{}, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o"}, New: &schemas.NewSession{UID: uid, Tenant: tenant, Session: id, Lineage: string(uid), Spec: seal.Label(sealed, word)},
	}})
	f.must(err)
	for _, t := range []schemas.Transition{
		{Type: schemas.TStarted}, {Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{ID: "s", Kind: schemas.OpSuspend}}},
	} {
		v, err = f.records.Swap(f.ctx, v, t)
		f.must(err)
	}
	head := f.write(v)
	v, err = f.records.Swap(f.ctx, v, schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &head}})
	f.must(err)
	return v
}

// write stores an image of a session, for those who are its readers now.
func (f *fleet) write(v statekv.Versioned) schemas.Head {
	f.Helper()
	to, err := f.keeper.Readers(f.ctx, v.Tenant)
	f.must(err)
	w, err := image.Create(f.ctx, f.images, image.WriteOptions{
		Tenant: v.Tenant, Session: v.Session, UID: v.UID, Lineage: v.Lineage, Epoch: v.Epoch, Seq: v.Version, Parent: v.Head,
		Recipients: to.Recipients, KeyVersion: to.Version, KeyGeneration: to.Generation, Signer: f.signer, SignerName: "h",
	})
	f.must(err)
	f.must(w.Add(image.Entry{Name: "memory", Type: image.TypeFile, Size: -1}, strings.NewReader("the memory of "+string(v.Session))))
	head, _, _, err := w.Commit(f.ctx)
	f.must(err)
	return head
}

// reads reports whether an identity alone opens a session's image and its spec.
func (f *fleet) reads(n schemas.Name, id age.Identity) error {
	f.Helper()
	v, err := f.records.Get(f.ctx, n)
	f.must(err)
	_, err = seal.Unseal(v.Spec, id)
	r, rerr := image.Open(f.ctx, f.images, *v.Head, image.ReadOptions{Identities: []age.Identity{id}, Trusted: f.keeper.Trusted})
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	defer r.Close()
	return errors.Join(err, r.Verify(f.ctx))
}

func (f *fleet) pass(want Report) {
	f.Helper()
	got, err := f.keeper.Pass(f.ctx, "")
	f.must(err)
	if got != want {
		f.Errorf("the pass reports %+v, want %+v", got, want)
	}
}

func TestReadersOfAllThatThereIs(t *testing.T) {
	f := newFleet(t)
	a, b := f.suspended("default", "a"), f.suspended("acme", "b")
	f.pass(Report{Lineages: 2, Keys: 2})
	every, one := f.identity(), f.identity()
	f.must(f.keeper.Add(f.ctx, "", schemas.KeyRequest{Recipient: every.Recipient().String(), Name: "every"}, "me"))
	f.must(f.keeper.Add(f.ctx, "acme", schemas.KeyRequest{Recipient: one.Recipient().String(), Name: "one", Escrow: true}, "me"))
	f.pass(Report{Lineages: 2, Keys: 2, Behind: 2, Stored: 2, Deleted: 2, Resealed: 2})
	f.pass(Report{Lineages: 2, Keys: 2})
	for _, id := range []age.Identity{f.own, every} {
		f.must(errors.Join(f.reads(a.Name(), id), f.reads(b.Name(), id)))
	}
	f.must(f.reads(b.Name(), one))
	if err := f.reads(a.Name(), one); !errors.Is(err, image.ErrNoKey) {
		t.Errorf("acme's reader reads the default tenant's: %v", err)
	}
	v, err := f.keeper.View(f.ctx, "acme")
	if err != nil || len(v.Readers) != 3 || len(v.Writers) != 1 || v.Lineages != 1 || v.Behind != 0 {
		t.Errorf("%+v, error %v", v, err)
	}

	// Removed from every tenant's: generations go beyond any tenant's own.
	f.must(f.keeper.Rotate(f.ctx, "acme", schemas.KeyRequest{}, "me"))
	f.must(f.keeper.Rotate(f.ctx, "acme", schemas.KeyRequest{}, "me"))
	f.must(f.keeper.Remove(f.ctx, "", schemas.KeyRequest{Recipient: "every"}, "me"))
	if v, err := f.keeper.View(f.ctx, "acme"); err != nil || v.Generation != 3 || v.Behind != 1 {
		t.Errorf("%+v, error %v", v, err)
	}
	f.pass(Report{Lineages: 2, Keys: 2, Behind: 2, Stored: 2, Deleted: 2, Resealed: 2})
	if err := f.reads(a.Name(), every); !errors.Is(err, image.ErrNoKey) || !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("the removed reader: %v", err)
	}
}

// A host without identities says what it can't do, and does no harm; one that has
// them completes it.
func TestHostWithoutIdentity(t *testing.T) {
	f := newFleet(t)
	v := f.suspended("default", "a")
	f.must(f.keeper.Add(f.ctx, "", schemas.KeyRequest{Recipient: f.identity().Recipient().String()}, "me"))
	whole := f.keeper
	f.keeper = f.keeperWith()
	f.pass(Report{Lineages: 1, Keys: 1, Behind: 1, Locked: 1, Unsealed: 1})
	f.must(f.reads(v.Name(), f.own))
	f.keeper = whole
	f.pass(Report{Lineages: 1, Keys: 1, Behind: 1, Stored: 1, Deleted: 1, Resealed: 1})
}

// Serve does all that by itself, when it starts and when a record changes.
func TestServe(t *testing.T) {
	f := newFleet(t)
	a := f.suspended("default", "a")
	ctx, stop := context.WithCancel(f.ctx)
	done := make(chan error, 2)
	go func() { done <- f.keeper.Ring.Serve(ctx) }()
	go func() { done <- f.keeper.Serve(ctx) }()
	later := f.identity()
	_, err := f.store.Update(f.ctx, "", add(schemas.KeyRequest{Recipient: later.Recipient().String()}, "another host"))
	f.must(err)
	for f.reads(a.Name(), later) != nil {
		select {
		case <-f.ctx.Done():
			t.Fatal("the keys don't follow")
		case <-time.After(5 * time.Millisecond):
		}
	}
	stop()
	f.must(errors.Join(<-done, <-done))
}

// cut ends everything at the n-th change of the store, as a crash would.
type cut struct {
	objectstore.Store
	left atomic.Int64
}

func (c *cut) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return c.Store.Put(ctx, name, r, size)
}

func (c *cut) Delete(ctx context.Context, name string) error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return c.Store.Delete(ctx, name)
}

// Cut off after each change that it makes to the store, a pass over several
// sessions leaves each readable by its old readers or by the new ones, and the
// next one completes it.
func TestPassCutOff(t *testing.T) {
	f := newFleet(t)
	sessions := []statekv.Versioned{f.suspended("default", "a"), f.suspended("default", "b")}
	whole := f.images
	for n := int64(0); n < 5; n++ {
		later := f.identity()
		f.must(f.keeper.Add(f.ctx, "", schemas.KeyRequest{Recipient: later.Recipient().String(), Name: later.Recipient().String()[:20]}, "me"))
		c := &cut{Store: whole}
		c.left.Store(n)
		f.keeper.Images = c
		_, err := f.keeper.Pass(f.ctx, "")
		if n < 4 == (err == nil) {
			t.Fatalf("cut off after %d changes: error %v", n, err)
		}
		f.keeper.Images = whole
		for _, v := range sessions {
			f.must(f.reads(v.Name(), f.own))
		}
		_, err = f.keeper.Pass(f.ctx, "")
		f.must(err)
		for _, v := range sessions {
			f.must(errors.Join(f.reads(v.Name(), f.own), f.reads(v.Name(), later)))
		}
	}
}

// A session that is removed while its keys are wrapped again: none comes back.
func TestRemovedMeanwhile(t *testing.T) {
	f := newFleet(t)
	v := f.suspended("default", "a")
	f.must(f.keeper.Add(f.ctx, "", schemas.KeyRequest{Recipient: f.identity().Recipient().String()}, "me"))
	f.keeper.Images = &meanwhile{Store: f.images, first: func() {
		gone, err := f.records.Swap(f.ctx, v, schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: &schemas.Op{ID: "r", Kind: schemas.OpRemove}}})
		f.must(err)
		f.must(image.DeleteLineage(f.ctx, f.images, v.Tenant, v.Lineage))
		_, err = f.records.Swap(f.ctx, gone, schemas.Transition{Type: schemas.TShredded})
		f.must(err)
	}}
	if _, err := f.keeper.Pass(f.ctx, ""); err != nil {
		t.Error(err)
	}
	var left []string
	f.must(f.images.List(f.ctx, "default/", func(i objectstore.Info) error {
		left = append(left, i.Name)
		return nil
	}))
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// meanwhile does something just before the first object is stored.
type meanwhile struct {
	objectstore.Store
	first func()
}

func (m *meanwhile) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if m.first != nil {
		m.first()
		m.first = nil
	}
	return m.Store.Put(ctx, name, bytes.NewReader(data), size)
}
