package janitor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = time.Minute

// house is a janitor with records and images.
type house struct {
	*testing.T
	ctx     context.Context
	records *statekv.Store
	images  objectstore.Store
	reader  *age.X25519Identity
	signer  ed25519.PrivateKey
	janitor *Janitor
	expired []string
}

func newHouse(t *testing.T, p Policy) *house {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	h := &house{T: t, ctx: ctx}
	js := natstest.Streams(t)
	var err error
	h.records, err = statekv.Open(ctx, js, stream.NamesWith(""))
	h.must(err)
	h.images, err = dir.Open(t.TempDir())
	h.must(err)
	h.reader, err = age.GenerateX25519Identity()
	h.must(err)
	public, signer, err := ed25519.GenerateKey(nil)
	h.must(err)
	h.signer = signer
	h.janitor = New(Options{
		Records: h.records, Images: h.images, Publish: stream.Publisher{JS: js}, Policy: p, Actor: "janitor@h",
		Known: func(string, string) []ed25519.PublicKey { return []ed25519.PublicKey{public} },
		Expire: func(_ context.Context, v statekv.Versioned, _ string) error {
			h.expired = append(h.expired, v.Name().String())
			return nil
		},
	})
	return h
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) swap(v statekv.Versioned, t schemas.Transition) statekv.Versioned {
	h.Helper()
	v, err := h.records.Swap(h.ctx, v, t)
	h.must(err)
	return v
}

// run makes a running session.
func (h *house) run(id string) statekv.Versioned {
	h.Helper()
	v := h.swap(statekv.Versioned{}, schemas.Transition{Type: schemas.TRun, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o"},
		New: &schemas.NewSession{UID: schemas.UID("uid-" + id), Tenant: "default", Session: schemas.SessionID(id), Class: "web", Lineage: "lin-" + id},
	}})
	return h.swap(v, schemas.Transition{Type: schemas.TStarted})
}

// write stores an image of a session's.
func (h *house) write(v statekv.Versioned, seq uint64, content string) schemas.Head {
	h.Helper()
	w, err := image.Create(h.ctx, h.images, image.WriteOptions{
		Tenant: v.Tenant, Session: v.Session, UID: v.UID, Lineage: v.Lineage, Epoch: v.Epoch, Seq: seq,
		Recipients: []age.Recipient{h.reader.Recipient()}, Signer: h.signer, SignerName: "h",
	})
	h.must(err)
	h.must(w.Add(image.Entry{Name: "memory", Type: image.TypeFile, Size: -1}, strings.NewReader(content)))
	head, _, _, err := w.Commit(h.ctx)
	h.must(err)
	return head
}

// checkpoint records an image as the head of a session.
func (h *house) checkpoint(v statekv.Versioned, content string) (statekv.Versioned, schemas.Head) {
	h.Helper()
	v = h.swap(v, schemas.Transition{Type: schemas.TCheckpoint, Set: schemas.Set{Op: &schemas.Op{ID: "c", Kind: schemas.OpCheckpoint}}})
	head := h.write(v, v.Version, content)
	return h.swap(v, schemas.Transition{Type: schemas.TCheckpointed, Set: schemas.Set{Head: &head}}), head
}

func (h *house) prune(dryRun bool) schemas.StorePrune {
	h.Helper()
	out, err := h.janitor.Prune(h.ctx, dryRun)
	h.must(err)
	if len(out.Problems) > 0 {
		h.Errorf("problems: %q", out.Problems)
	}
	return out
}

func (h *house) check() schemas.StoreCheck {
	h.Helper()
	out, err := h.janitor.Check(h.ctx, h.janitor.Known, func(string) bool { return true })
	h.must(err)
	return out
}

func (h *house) there(head schemas.Head) bool {
	h.Helper()
	r, err := h.images.Get(h.ctx, head.Name, 0, 1)
	if errors.Is(err, objectstore.ErrNotFound) {
		return false
	}
	h.must(err)
	r.Close()
	return true
}

func TestPrune(t *testing.T) {
	h := newHouse(t, Policy{Count: 2})
	v := h.run("work")
	var heads []schemas.Head
	for i := range 4 {
		var head schemas.Head
		v, head = h.checkpoint(v, fmt.Sprint("memory ", i))
		heads = append(heads, head)
	}
	if out := h.prune(true); len(out.Snapshots) != 2 || !h.there(heads[0]) {
		t.Errorf("dry run: %+v, the first is there: %v", out, h.there(heads[0]))
	}
	out := h.prune(false)
	if len(out.Snapshots) != 2 || out.Snapshots[0].Name != "work" || out.Snapshots[0].Reason == "" {
		t.Errorf("prune: %+v", out)
	}
	var left []bool
	for _, head := range heads {
		left = append(left, h.there(head))
	}
	if !slices.Equal(left, []bool{false, false, true, true}) {
		t.Errorf("left: %v, want the last two", left)
	}
	if out := h.prune(false); len(out.Snapshots) != 0 {
		t.Errorf("again: %+v", out)
	}
	if c := h.check(); len(c.Problems)+len(c.Unknown)+len(c.Foreign) != 0 || c.Snapshots != 2 || c.ReadBytes == 0 {
		t.Errorf("check: %+v", c)
	}
	stats, err := h.janitor.Stats(h.ctx)
	if room := stats.Health; err == nil && (room.FreeBytes <= 0 || room.FreeBytes > room.TotalBytes || room.LastError != "") {
		t.Errorf("the store, a directory, is %+v", room)
	}
	if err != nil || len(stats.Sessions) != 1 || stats.Sessions[0].Name != "work" || stats.StoredBytes < 1000 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
}

// What a fork begins from stays, although its origin has gone on.
func TestForkedSnapshotStays(t *testing.T) {
	h := newHouse(t, Policy{Count: 1})
	v, first := h.checkpoint(h.run("origin"), "memory")
	h.swap(statekv.Versioned{}, schemas.Transition{Type: schemas.TForkNew, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "f", Kind: schemas.OpResume, Source: &first}, Head: &first,
		New: &schemas.NewSession{UID: "uid-fork", Tenant: "default", Session: "fork", Class: "web", Lineage: "lin-fork"},
	}})
	h.checkpoint(v, "other memory")
	if out := h.prune(false); len(out.Snapshots) != 0 || !h.there(first) {
		t.Errorf("%+v; the fork's snapshot is there: %v", out, h.there(first))
	}
}

// A template's image is kept under every policy, and counts for none; what it is made of stays until it is made.
func TestTemplatesStay(t *testing.T) {
	h := newHouse(t, Policy{Count: 1, Overall: 1, Bytes: 1, Age: time.Nanosecond, Expire: time.Nanosecond})
	v, first := h.checkpoint(h.run("origin"), "memory")
	template := h.swap(statekv.Versioned{}, schemas.Transition{Type: schemas.TTemplate, Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "t", Kind: schemas.OpRewrite, Source: &first},
		New: &schemas.NewSession{UID: "uid-py", Tenant: "default", Session: "-template-py", Class: "web", Lineage: "lin-py"},
	}})
	_, second := h.checkpoint(v, "other memory")
	if out := h.prune(false); len(out.Snapshots) != 0 || !h.there(first) || !h.there(second) {
		t.Errorf("while it is made: %+v", out)
	}
	head := h.write(template, template.Version, "memory")
	h.swap(template, schemas.Transition{Type: schemas.TRewritten, Set: schemas.Set{Head: &head}})
	if out := h.prune(false); len(out.Snapshots) != 1 || h.there(first) || !h.there(second) || !h.there(head) || len(h.expired) != 0 {
		t.Errorf("when it is made: %+v, expired %v", out, h.expired)
	}
	if c := h.check(); len(c.Problems)+len(c.Unknown) != 0 {
		t.Errorf("check: %+v", c)
	}
	stats, err := h.janitor.Stats(h.ctx)
	h.must(err)
	if !slices.ContainsFunc(stats.Sessions, func(s schemas.SessionStats) bool { return s.Name == "template py" && s.Snapshots == 1 }) {
		t.Errorf("stats: %+v", stats.Sessions)
	}
}

func TestExpire(t *testing.T) {
	h := newHouse(t, Policy{Expire: time.Nanosecond})
	h.run("awake")
	v := h.swap(h.run("asleep"), schemas.Transition{Type: schemas.TSuspend, Set: schemas.Set{Op: &schemas.Op{ID: "s", Kind: schemas.OpSuspend}}})
	head := h.write(v, v.Version, "memory")
	v = h.swap(v, schemas.Transition{Type: schemas.TSuspended, Set: schemas.Set{Head: &head, Op: &schemas.Op{ID: "s", Kind: schemas.OpReap}}})
	if out := h.prune(false); len(out.Expired) != 0 {
		t.Errorf("while it is still being suspended: %+v", out)
	}
	h.swap(v, schemas.Transition{Type: schemas.TReaped})
	if out := h.prune(true); !slices.Equal(out.Expired, []string{"asleep"}) || len(h.expired) != 0 {
		t.Errorf("dry run: %+v, removed %v", out, h.expired)
	}
	if out := h.prune(false); !slices.Equal(out.Expired, []string{"asleep"}) || !slices.Equal(h.expired, []string{"asleep"}) {
		t.Errorf("%+v, removed %v", out, h.expired)
	}
	h.janitor.Policy.Expire = 0
	h.expired = nil
	if h.prune(false); len(h.expired) != 0 || !h.there(head) {
		t.Errorf("without an expire policy %v are removed", h.expired)
	}
}

// A host whose clock is behind says of its sessions that they were suspended long ago: that
// doesn't remove them.
func TestExpireIsByTheLogsClock(t *testing.T) {
	h := newHouse(t, Policy{Expire: time.Hour})
	long := time.Now().Add(-40 * day)
	v := h.swap(h.run("asleep"), schemas.Transition{Type: schemas.TSuspend, At: long, Set: schemas.Set{Op: &schemas.Op{ID: "s", Kind: schemas.OpSuspend}}})
	head := h.write(v, v.Version, "memory")
	v = h.swap(v, schemas.Transition{Type: schemas.TSuspended, At: long, Set: schemas.Set{Head: &head, Op: &schemas.Op{ID: "s", Kind: schemas.OpReap}}})
	h.swap(v, schemas.Transition{Type: schemas.TReaped, At: long})
	if out := h.prune(false); len(out.Expired) != 0 || len(h.expired) != 0 {
		t.Errorf("%+v, removed %v", out, h.expired)
	}
	h.janitor.Policy.Expire = time.Millisecond
	if out := h.prune(false); !slices.Equal(out.Expired, []string{"asleep"}) {
		t.Errorf("in time: %+v", out)
	}
}

// A store may be shared: what no record knows is told of, and left alone.
func TestUnknownLineagesStay(t *testing.T) {
	h := newHouse(t, Policy{Count: 1, Age: time.Nanosecond})
	h.janitor.Wait = time.Nanosecond
	var stranger statekv.Versioned
	stranger.Tenant, stranger.Session, stranger.UID, stranger.Lineage = "default", "stranger", "u", "other"
	head := h.write(stranger, 1, "memory")
	h.must(h.images.Put(h.ctx, "notes", strings.NewReader("x"), 1))
	h.prune(false)
	h.prune(false)
	if c := h.check(); !h.there(head) || !slices.Equal(c.Unknown, []string{"default/other"}) || !slices.Equal(c.Foreign, []string{"notes"}) {
		t.Errorf("%+v; the stranger's image is there: %v", c, h.there(head))
	}
}

func TestCheckFindsAMissingHead(t *testing.T) {
	h := newHouse(t, Policy{})
	_, head := h.checkpoint(h.run("work"), "memory")
	h.must(h.images.Delete(h.ctx, head.Name))
	if c := h.check(); len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "session work goes on from snapshot") {
		t.Errorf("%+v, want the missing head of session work", c)
	}
}
