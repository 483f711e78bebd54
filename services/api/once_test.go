package api

import (
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

func TestOnceNamesOneLife(t *testing.T) {
	req := func(actor, once string) request {
		return request{schemas.Request{Once: once}, Caller{Identity: actor}}
	}
	web, twin := schemas.Name{Tenant: "acme", Session: "web"}, schemas.Name{Tenant: "acme", Session: "twin"}
	uid := uidFor(web, req("token:a", "k"), morning)
	if again := uidFor(web, req("token:a", "k"), morning.Add(onceUnit-1)); len(uid) != len(newUID()) || uid != again {
		t.Errorf("the uid is %q and %q", uid, again)
	}
	seen := map[schemas.UID]bool{uid: true}
	for i, other := range []schemas.UID{
		uidFor(web, req("token:b", "k"), morning), uidFor(web, req("token:a", "l"), morning), uidFor(twin, req("token:a", "k"), morning),
		uidFor(web, req("token:a", ""), morning), uidFor(web, req("token:a", ""), morning), uidFor(web, req("token:a", "k"), morning.Add(onceUnit)),
	} {
		if seen[other] {
			t.Errorf("the uid of request %d is that of another", i)
		}
		seen[other] = true
	}
	for _, late := range []time.Duration{0, time.Second, onceUnit} {
		if !madeBy(web, req("token:a", "k"), schemas.SessionRecord{UID: uid, Created: morning.Add(late)}) {
			t.Errorf("a record that is made %s later isn't of the request", late)
		}
	}
	if madeBy(web, req("token:a", "k"), schemas.SessionRecord{UID: uid, Created: morning.Add(2 * onceUnit)}) {
		t.Error("a uid of before counts for a later session")
	}
}

// again has a server answer a request of before.
func (b *bench) again(s *Server, once, program string) (schemas.UID, bool, error) {
	m := &maker{sessions: &sessions{}, board: s.board, records: b.records}
	out, made, err := m.again(b.ctx, agent, request{schemas.Request{Once: once}, ann}, program)
	v, _ := out.(schemas.View)
	return v.UID, made, err
}

// A request that is sent again is answered by any server with what it made, and makes nothing.
func TestOnceIsAnsweredAgain(t *testing.T) {
	b := newBench(t)
	second := b.serve()
	if _, made, err := b.again(second, "k", "sh"); made || err != nil {
		t.Errorf("before there is a session: %v, %v", made, err)
	}
	uid := uidFor(agent, request{schemas.Request{Once: "k"}, ann}, time.Now())
	v := b.swap(statekv.Versioned{}, schemas.TRun, schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o", Kind: schemas.OpStart},
		New: &schemas.NewSession{UID: uid, Tenant: agent.Tenant, Session: agent.Session, Class: "web", Program: "sh", Lineage: string(uid), Born: 3},
	})
	type answer struct {
		uid  schemas.UID
		made bool
		err  error
	}
	starting := make(chan answer, 1)
	go func() {
		got, made, err := b.again(second, "k", "sh")
		starting <- answer{got, made, err}
	}()
	v = b.swap(v, schemas.TStarted, schemas.Set{})
	if got := <-starting; got.err != nil || !got.made || got.uid != uid {
		t.Errorf("while it starts: %+v", got)
	}
	if got, made, err := b.again(b.server, "k", "sh"); err != nil || !made || got != uid {
		t.Errorf("while it runs: %s, %v, %v", got, made, err)
	}
	if _, made, err := b.again(b.server, "k", "bash"); !made || schemas.CodeOf(err) != schemas.CodeUsage {
		t.Errorf("another request with the same key: %v, %v", made, err)
	}
	if _, made, err := b.again(b.server, "l", "sh"); made || err != nil { // create says that the name is taken
		t.Errorf("another key: %v, %v", made, err)
	}
	if _, made, err := b.again(b.server, "", "sh"); made || err != nil {
		t.Errorf("no key: %v, %v", made, err)
	}
	v = b.swap(v, schemas.TRemove, schemas.Set{Op: &schemas.Op{ID: "p", Kind: schemas.OpRemove}})
	v = b.swap(v, schemas.TRemoved, schemas.Set{})
	if _, made, err := b.again(second, "k", "sh"); !made || schemas.ReasonOf(err) != schemas.ReasonDeleted {
		t.Errorf("after it was deleted: %v, %v", made, err)
	}
	b.swap(v, schemas.TRun, schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "q", Kind: schemas.OpStart},
		New: &schemas.NewSession{UID: "another", Tenant: agent.Tenant, Session: agent.Session, Class: "web", Program: "sh", Lineage: "another", Born: 9},
	})
	if _, made, err := b.again(second, "k", "sh"); !made || schemas.ReasonOf(err) != schemas.ReasonDeleted {
		t.Errorf("after another took its name: %v, %v", made, err)
	}
}

// A key whose session has left NATS's log is as new: what it makes is another session.
func TestOnceIsForgottenWithTheLog(t *testing.T) {
	b := newBench(t)
	req := request{schemas.Request{Once: "k"}, ann}
	uid := uidFor(agent, req, time.Now())
	v := b.swap(statekv.Versioned{}, schemas.TRun, schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o", Kind: schemas.OpStart},
		New: &schemas.NewSession{UID: uid, Tenant: agent.Tenant, Session: agent.Session, Class: "web", Program: "sh", Lineage: string(uid), Born: 3},
	})
	v = b.swap(v, schemas.TStarted, schemas.Set{})
	v = b.swap(v, schemas.TRemove, schemas.Set{Op: &schemas.Op{ID: "p", Kind: schemas.OpRemove}})
	v = b.swap(v, schemas.TRemoved, schemas.Set{})
	if _, made, err := b.again(b.server, "k", "sh"); !made || schemas.ReasonOf(err) != schemas.ReasonDeleted {
		t.Errorf("as long as the log has it: %v, %v", made, err)
	}
	if err := b.records.Purge(b.ctx, agent, v.Rev, true); err != nil {
		t.Fatal(err)
	}
	if _, made, err := b.again(b.server, "k", "sh"); made || err != nil {
		t.Errorf("after that: %v, %v", made, err)
	}
	if later := uidFor(agent, req, v.Created.Add(2*onceUnit)); later == uid {
		t.Error("the uid of the session that is gone is given again")
	}
}
