package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
)

// announce has hosts say that they are there; those of an older version know no moves.
func (b *bench) announce(old bool, hosts ...schemas.HostID) {
	b.Helper()
	kv, err := b.js.KeyValue(b.ctx, stream.NamesWith("").Hosts())
	b.must(err)
	for _, id := range hosts {
		h := schemas.Host{Host: id, Fingerprints: []schemas.Fingerprint{{Driver: "fake", Keeps: schemas.KeepsMemory}}}
		if !old {
			h.Knows = schemas.Features()
		}
		data, err := json.Marshal(h)
		b.must(err)
		_, err = kv.Put(b.ctx, string(id), data)
		b.must(err)
	}
}

func (b *bench) refused(why schemas.Reason, text, verb string, req schemas.Request) {
	b.Helper()
	_, err := b.server.Call(b.ctx, ann, verb, req)
	if err == nil || schemas.ReasonOf(err) != why || !strings.Contains(err.Error(), text) {
		b.Errorf("%s: %v, reason %q; want %q", verb, err, schemas.ReasonOf(err), why)
	}
}

// A move is asked of versions alone that know it, in one op, and its answer says how long the
// session stood still by the server's one clock.
func TestMoveIsOneOp(t *testing.T) {
	b := newBench(t)
	b.running()
	b.announce(true, "h", "other")
	b.refused(schemas.ReasonNoHost, "host h, where it runs, has a Diapause that is too old", "move", schemas.Request{Name: agent.String()})
	b.announce(false, "h")
	b.refused(schemas.ReasonNoHost, `host other: its Diapause is too old for "move"`, "move", schemas.Request{Name: agent.String()})
	b.announce(false, "other")
	b.refused(schemas.ReasonSameHost, "on host h already", "move", schemas.Request{Name: agent.String(), Host: "h"})
	type answer struct {
		out any
		err error
	}
	moved := make(chan answer, 1)
	go func() {
		out, err := b.server.Call(b.ctx, ann, "move", schemas.Request{Name: agent.String()})
		moved <- answer{out, err}
	}()
	v := b.until("the suspend", func(v statekv.Versioned) bool { return v.Transition.Type == schemas.TSuspend })
	op := *v.Op
	if op.Idle || op.Move == nil || *op.Move != (schemas.Move{From: "h", To: "other"}) || v.Pause.Reason != schemas.PauseMove {
		t.Fatalf("asked for %+v, pause %+v", op, v.Pause)
	}
	b.refused(schemas.ReasonBusy, "under way", "move", schemas.Request{Name: agent.String()})
	op.Kind = schemas.OpReap
	v = b.swap(v, schemas.TSuspended, schemas.Set{Head: &schemas.Head{Name: "acme/u/1-1"}, Op: &op}, schemas.Stage{Name: "frozen", MS: 5000})
	op.Kind, op.Source = schemas.OpResume, v.Head
	v = b.swap(v, schemas.TResume, schemas.Set{Host: "other", Op: &op})
	b.swap(v, schemas.TResumed, schemas.Set{})
	got := <-moved
	b.must(got.err)
	m := got.out.(schemas.View).Moved
	if m == nil || m.From != "h" || m.To != "other" || m.FrozenMS < 5000 || m.FrozenMS > 5000+limit.Milliseconds() {
		t.Errorf("moved: %+v", m)
	}
}

// lost is a fleet whose host is gone.
type lost struct{ *fleet.Fleet }

func (l lost) Gone(schemas.HostID) (time.Time, bool) { return time.Now().Add(-time.Hour), true }

func (l lost) Hosts(ctx context.Context) ([]fleet.Host, error) {
	all, err := l.Fleet.Hosts(ctx)
	for i := range all {
		all[i].Gone = true
	}
	return all, err
}

// A host is ordered about while it is known, and is forgotten, with the orders, once it is gone
// and has nothing left.
func TestHostVerbs(t *testing.T) {
	b := newBench(t)
	b.announce(false, "h", "other")
	names := stream.NamesWith("")
	orders := hostkv.NewCache(b.js, names, nil)
	f := fleet.New(fleet.Options{JS: b.js, Names: names, Records: b.records, Orders: orders})
	verbs := &hostVerbs{fleet: f, orders: orders, board: newBoard(), js: b.js, names: names}
	ask := func(verb string, h schemas.HostID) (schemas.HostView, error) {
		got, err := verbs.verbs()[verb](b.ctx, request{schemas.Request{Host: h}, ann})
		v, _ := got.(schemas.HostView)
		return v, err
	}
	for _, verb := range []string{"host_cordon", "host_uncordon", "host_rm", "host_show"} {
		if _, err := ask(verb, "nowhere"); schemas.ReasonOf(err) != schemas.ReasonNoHost {
			t.Errorf("%s of an unknown host: %v", verb, err)
		}
		if _, err := ask(verb, "a/b"); err == nil {
			t.Errorf("%s of what is no name of a host", verb)
		}
	}
	v, err := ask("host_cordon", "h")
	if err != nil || v.Order == nil || !v.Order.Cordoned || v.Order.By != ann.String() || v.Order.Since.IsZero() || !v.Alive || !v.Empty {
		t.Errorf("cordoned: %+v, order %+v, %v", v, v.Order, err)
	}
	first := v.Order.Since
	if v, err := ask("host_cordon", "h"); err != nil || v.Order.Version != 1 || !v.Order.Since.Equal(first) {
		t.Errorf("cordoned again: %+v, %v", v.Order, err)
	}
	if _, err := ask("host_rm", "h"); schemas.ReasonOf(err) != schemas.ReasonInUse {
		t.Errorf("a host that is there is removed: %v", err)
	}
	if _, err := ask("host_cordon", "other"); err != nil {
		t.Error(err)
	}
	if v, err := ask("host_uncordon", "other"); err != nil || v.Order != nil {
		t.Errorf("uncordoned: %+v, %v", v.Order, err)
	}
	verbs.fleet = lost{f}
	if _, err := ask("host_rm", "h"); err != nil {
		t.Error(err)
	}
	if o := orders.Order("h"); o.Says() {
		t.Errorf("what is left of the order: %+v", o)
	}
	if _, err := ask("host_show", "h"); schemas.ReasonOf(err) != schemas.ReasonNoHost {
		t.Errorf("it is still there: %v", err)
	}
}

// without is a fleet in which one host is gone.
type without struct {
	*fleet.Fleet
	host schemas.HostID
}

func (w without) Gone(h schemas.HostID) (time.Time, bool) { return time.Time{}, h == w.host }

func (w without) Hosts(ctx context.Context) ([]fleet.Host, error) {
	all, err := w.Fleet.Hosts(ctx)
	for i := range all {
		all[i].Gone = all[i].Host.Host == w.host
	}
	return all, err
}

// What a host that is gone for good was still to remove, another removes.
func TestHostRemovedThatHadToRemove(t *testing.T) {
	b := newBench(t)
	b.announce(false, "h", "other")
	v := b.running()
	v = b.swap(v, schemas.TRemove, schemas.Set{Op: &schemas.Op{ID: "r", Kind: schemas.OpRemove, Shred: true}})
	epoch := v.Epoch
	names := stream.NamesWith("")
	orders := hostkv.NewCache(b.js, names, nil)
	f := fleet.New(fleet.Options{JS: b.js, Names: names, Records: b.records, Orders: orders})
	verbs := &hostVerbs{fleet: without{f, "h"}, orders: orders, board: b.server.board, js: b.js, names: names, sessions: b.server.ends.sessions}
	for seen := uint64(0); seen < v.Version; {
		if r, ok := b.server.board.get(agent); ok {
			seen = r.Version
		}
		if time.Sleep(time.Millisecond); b.ctx.Err() != nil {
			t.Fatal("the server doesn't hear of the session")
		}
	}
	if _, err := verbs.remove(b.ctx, request{schemas.Request{Host: "h"}, ann}); err != nil {
		t.Fatal(err)
	}
	v = b.until("another host", func(v statekv.Versioned) bool { return v.Host == "other" })
	if v.State != schemas.Deleted || v.Op == nil || v.Op.Kind != schemas.OpRemove || !v.Op.Shred || v.Op.ID == "r" || v.Epoch != epoch+1 {
		t.Errorf("epoch %d, op %+v, want %d and the removal", v.Epoch, v.Op, epoch+1)
	}
	if want := "host h is gone for good: other removes what it stored"; v.Transition.Reason != want || v.Transition.Actor != ann.Actor() {
		t.Errorf("%s by %s, want %s", v.Transition.Reason, v.Transition.Actor, want)
	}
	if _, err := verbs.remove(b.ctx, request{schemas.Request{Host: "h"}, ann}); schemas.ReasonOf(err) != schemas.ReasonNoHost {
		t.Errorf("it is still there: %v", err)
	}
}

// A host with sessions isn't removed, and the refusal names them.
func TestHostWithSessionsStays(t *testing.T) {
	b := newBench(t)
	b.announce(false, "h")
	b.running()
	names := stream.NamesWith("")
	f := fleet.New(fleet.Options{JS: b.js, Names: names, Records: b.records})
	verbs := &hostVerbs{fleet: lost{f}, orders: hostkv.NewCache(b.js, names, nil), board: b.server.board, js: b.js, names: names}
	for {
		if r, ok := b.server.Seen(agent); ok && r.State == schemas.Running {
			break
		}
		if time.Sleep(time.Millisecond); b.ctx.Err() != nil {
			t.Fatal("the server doesn't hear of the session")
		}
	}
	_, err := verbs.remove(b.ctx, request{schemas.Request{Host: "h"}, ann})
	if schemas.ReasonOf(err) != schemas.ReasonInUse || !strings.Contains(err.Error(), "1 session: "+agent.String()+" (running)") {
		t.Error(err)
	}
}
