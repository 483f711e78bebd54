package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Before all activity was heard no session is evicted: it may be in use.
func TestNoRoomIsMadeUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{Bus: talk{}}))
		defer l.actor.acts.wait()
		l.hosts.announced(schemas.Host{Host: "a", Slots: 1})
		s := seen(l, "a", "s", schemas.Running, nil, "person")
		time.Sleep(time.Hour) // NATS is slow
		place := schemas.Place{ID: "1", Host: "a"}
		l.hosts.reserve(place)
		if free, name, none, hope := l.evictor.room(t.Context(), place, time.Now().Add(patience), false); free || name != nil || none != nil || !hope || s.acting {
			t.Errorf("free %v, suspended %v, %v, hope %v", free, name, none, hope)
		}
	})
}

// Looking for who may make room changes nothing of what is known of a session.
func TestLookingForRoomForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{Bus: talk{}}))
		l.hear(&stream.Heard{CaughtUp: true})
		l.hosts.announced(schemas.Host{Host: "a", Slots: 1})
		s := seen(l, "a", "s", schemas.Running, nil, "person")
		for i, ttl := range []time.Duration{time.Minute, time.Hour} {
			src := schemas.Source{Name: s.name(), Kind: schemas.KindBusy, Key: fmt.Sprint("k", i)}
			l.listen(&session.Message{Source: src, Seq: uint64(i + 1), At: time.Now(), Activity: schemas.Activity{TTL: schemas.Duration(ttl)}})
		}
		time.Sleep(2 * time.Minute)
		before := l.table.view(s)
		before.Known().Leases = slices.Clone(before.Known().Leases)
		l.evictor.least(s.host.slots, time.Now())
		l.evictor.noRoom(s.host, false)
		now := l.table.view(s)
		p := l.table.policy(&now)
		short := session.Message{Source: schemas.Source{Name: s.name(), Kind: schemas.KindBusy, Key: "k1"}, Seq: 9, At: time.Now(), Activity: schemas.Activity{Released: true}}
		before.Hear(short, p)
		now.Hear(short, p)
		if a, b := fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", now); a != b {
			t.Errorf("known before %s\nand after %s", a, b)
		}
	})
}

// A place that was made stays taken between the swap that makes the session's record and
// when that is read here: no other is given it.
func TestAMadePlaceIsGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{Bus: talk{}}))
		l.hear(&stream.Heard{CaughtUp: true})
		l.hosts.announced(schemas.Host{Host: "a", Slots: 1})
		free := func(p schemas.Place) bool {
			free, _, _, _ := l.evictor.room(t.Context(), p, time.Now().Add(patience), false)
			return free
		}
		places := func(promises, seats int) {
			t.Helper()
			if at := l.hosts.of("a"); len(at.reserved) != promises || len(at.slots) != seats {
				t.Errorf("%d promises, %d seats; want %d, %d", len(at.reserved), len(at.slots), promises, seats)
			}
		}
		first, second := schemas.Place{ID: "1", Host: "a", Session: "acme/new"}, schemas.Place{ID: "2", Host: "a", Session: "acme/other"}
		if free(first) {
			t.Fatal("a place is given before it was heard to be asked for")
		}
		l.hosts.reserve(first)
		l.hosts.reserve(second)
		if !free(first) || free(second) {
			t.Fatal("an empty host has room for one")
		}
		first.Over, first.Revision = true, 9
		l.hosts.reserve(first)
		if free(second) {
			t.Error("the place was given twice")
		}
		places(2, 0)
		l.see(&statekv.Glance{Rev: statekv.RevisionAt(8), Record: schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "third", State: schemas.Starting, Host: "b"}})
		places(2, 0)
		l.see(&statekv.Glance{Rev: statekv.RevisionAt(9), Record: schemas.SessionRecord{UID: "v", Tenant: "acme", Session: "new", State: schemas.Starting, Host: "a"}})
		places(1, 1)
		l.hosts.reserve(first) // the same again
		if free(second) {
			t.Error("there is room beside the new session")
		}
		second.Over = true
		l.hosts.reserve(second) // it was given up
		places(0, 1)
		l.hosts.reserve(schemas.Place{ID: "3", Host: "a", Session: "acme/who-died"})
		time.Sleep(stream.PlaceKept + time.Second)
		if free(second) {
			t.Error("the host is full")
		}
		places(0, 1)
	})
}

// A name that is free again may have a place asked for before all is read of the session that
// had it: that hasn't taken the place.
func TestAnEarlierSessionTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{Bus: talk{}}))
		l.hear(&stream.Heard{CaughtUp: true})
		l.hosts.announced(schemas.Host{Host: "a", Slots: 2})
		see := func(rev uint64, uid schemas.UID, state schemas.State, op *schemas.Op, promises int) {
			t.Helper()
			l.see(&statekv.Glance{Rev: statekv.RevisionAt(rev), Record: schemas.SessionRecord{UID: uid, Tenant: "acme", Session: "work", State: state, Op: op, Host: "a"}})
			if n := len(l.hosts.of("a").reserved); n != promises {
				t.Errorf("at revision %d %d places are asked for, not %d", rev, n, promises)
			}
		}
		see(1, "u", schemas.Running, nil, 0)
		l.hosts.reserve(schemas.Place{ID: "1", Host: "a", Session: "acme/work"})
		see(2, "u", schemas.Running, &schemas.Op{Kind: schemas.OpRemove}, 1)
		see(3, "u", schemas.Deleted, nil, 1)
		see(4, "v", schemas.Starting, &schemas.Op{Kind: schemas.OpStart}, 0)
	})
}
