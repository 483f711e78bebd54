package archive

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
)

// memoryHeads keeps the head in memory.
type memoryHeads struct {
	mu   sync.Mutex
	head Head
	rev  uint64
}

func (m *memoryHeads) Get(context.Context) (Head, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.head, m.rev, nil
}

func (m *memoryHeads) Swap(_ context.Context, rev uint64, h Head) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rev != m.rev {
		return 0, ErrMoved
	}
	m.head, m.rev = h, rev+1
	return m.rev, nil
}

// swapper is what the tests write records with: a real store or a fake one.
type swapper interface {
	Log
	Records
	Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error)
	Swap(ctx context.Context, prev statekv.Versioned, t schemas.Transition) (statekv.Versioned, error)
}

// bench is a log with an archive.
type bench struct {
	*testing.T
	ctx    context.Context
	log    swapper
	heads  Heads
	store  objectstore.Store
	key    *age.X25519Identity
	signer ed25519.PrivateKey
	*Archive
	reader *Reader
}

func newBench(t *testing.T, p Policy, log swapper, heads Heads) *bench {
	t.Helper()
	b := &bench{T: t, ctx: t.Context(), log: log, heads: heads}
	var err error
	b.store, err = dir.Open(t.TempDir())
	b.must(err)
	b.key, err = age.GenerateX25519Identity()
	b.must(err)
	_, b.signer, err = ed25519.GenerateKey(nil)
	b.must(err)
	b.Archive = b.archive(p)
	b.reader = b.read()
	return b
}

// onNATS is one whose log is a real server's.
func onNATS(t *testing.T, p Policy) *bench {
	t.Helper()
	js := natstest.Streams(t)
	records, err := statekv.Open(t.Context(), js, stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	heads, err := OpenHeads(t.Context(), js, stream.NamesWith(""))
	if err != nil {
		t.Fatal(err)
	}
	return newBench(t, p, records, heads)
}

// archive makes another archive of the same log: as another process would.
func (b *bench) archive(p Policy) *Archive {
	trusted := func(string) []ed25519.PublicKey { return []ed25519.PublicKey{b.signer.Public().(ed25519.PublicKey)} }
	return New(Options{
		Log: b.log, Heads: b.heads, Store: b.store, Key: b.key, Signer: b.signer, Host: "h", Known: trusted, Trusted: trusted, Policy: p, Pause: time.Nanosecond,
	})
}

func (b *bench) read() *Reader {
	return &Reader{Records: b.log, Heads: b.heads, Store: b.store, Known: b.Archive.Known, Identities: []age.Identity{b.key}}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func name(id string) schemas.Name {
	return schemas.Name{Tenant: "acme", Session: schemas.SessionID(id)}
}

func (b *bench) swap(v statekv.Versioned, t schemas.Transition) statekv.Versioned {
	b.Helper()
	v, err := b.log.Swap(b.ctx, v, t)
	b.must(err)
	return v
}

// run makes a session, on top of the record of an earlier one, if there is one.
func (b *bench) run(id, uid string) statekv.Versioned {
	b.Helper()
	prev, err := b.log.Get(b.ctx, name(id))
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		b.Fatal(err)
	}
	v := b.swap(prev, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{
		New: &schemas.NewSession{UID: schemas.UID(uid), Tenant: "acme", Session: schemas.SessionID(id), Class: "web", Lineage: uid}, Host: "h", Op: &schemas.Op{ID: "o"},
	}})
	return b.swap(v, schemas.Transition{Type: schemas.TStarted})
}

// checkpoints makes so many, each two revisions with a new head.
func (b *bench) checkpoints(v statekv.Versioned, n int) statekv.Versioned {
	b.Helper()
	for range n {
		v = b.swap(v, schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: &schemas.Op{ID: "c", Kind: schemas.OpCheckpoint}}})
		v = b.swap(v, schemas.Transition{Type: schemas.TCheckpointed, Set: schemas.Set{Head: &schemas.Head{Name: fmt.Sprint("head-", v.Version)}}})
	}
	return v
}

func (b *bench) remove(v statekv.Versioned) {
	b.Helper()
	v = b.swap(v, schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: &schemas.Op{ID: "r"}}})
	b.swap(v, schemas.Transition{Type: schemas.TRemoved})
}

func (b *bench) pass() Pass {
	b.Helper()
	out, err := b.Pass(b.ctx, false)
	b.must(err)
	return out
}

// moved passes, and has nothing to complain of.
func (b *bench) moved() Pass {
	b.Helper()
	out := b.pass()
	if len(out.Problems) > 0 {
		b.Errorf("problems: %q", out.Problems)
	}
	return out
}

// history gives the transitions of a session, with its uid, as a reader sees them.
func (b *bench) history(id string) (out []string) {
	b.Helper()
	all, gaps, err := b.reader.History(b.ctx, name(id))
	b.must(err)
	for _, g := range gaps {
		b.Errorf("gap: %s", g)
	}
	return lines(all)
}

func lines(all []statekv.Versioned) (out []string) {
	for _, v := range all {
		out = append(out, fmt.Sprintf("%s %d %s %d", v.UID, v.Version, v.Transition.Type, v.Rev.Seq()))
	}
	return out
}

// whole gives the log as a reader sees it, by session.
func (b *bench) whole(since time.Time) map[schemas.Name][]string {
	b.Helper()
	out := map[schemas.Name][]string{}
	gaps, err := b.reader.Log(b.ctx, "", since, func(v statekv.Versioned) error {
		out[v.Name()] = append(out[v.Name()], lines([]statekv.Versioned{v})...)
		return nil
	})
	b.must(err)
	for _, g := range gaps {
		b.Errorf("gap: %s", g)
	}
	return out
}

// inNATS gives what is left there of a session.
func (b *bench) inNATS(id string) (out []string) {
	b.Helper()
	all, err := b.log.History(b.ctx, name(id))
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		b.Fatal(err)
	}
	return lines(all)
}

func (b *bench) same(what string, got, want []string) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}
