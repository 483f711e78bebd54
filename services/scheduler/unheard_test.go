package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Before all activity was heard nobody has to make room: it may be in use.
func TestNoRoomIsMadeUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{Bus: talk{}}))
		defer l.acts.wait()
		l.report(schemas.Host{Host: "a", Slots: 1})
		s := seen(l, "a", "s", schemas.Running, nil, "person")
		time.Sleep(time.Hour) // NATS is slow
		if free, name, none, hope := l.room(t.Context(), "a", &promise{}, time.Now().Add(patience)); free || name != nil || none != nil || !hope || s.acting {
			t.Errorf("free %v, suspended %v, %v, hope %v", free, name, none, hope)
		}
	})
}

// Looking for who may make room changes nothing of what is known of a session.
func TestLookingForRoomForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{Bus: talk{}}))
		l.hear(&stream.Heard{CaughtUp: true})
		l.report(schemas.Host{Host: "a", Slots: 1})
		s := seen(l, "a", "s", schemas.Running, nil, "person")
		for i, ttl := range []time.Duration{time.Minute, time.Hour} {
			src := schemas.Source{Name: s.name(), Kind: schemas.KindBusy, Key: fmt.Sprint("k", i)}
			l.listen(&session.Message{Source: src, Seq: uint64(i + 1), At: time.Now(), Activity: schemas.Activity{TTL: schemas.Duration(ttl)}})
		}
		time.Sleep(2 * time.Minute)
		before := l.view(s)
		before = before.Apart()
		l.least(s.home, time.Now())
		l.noRoom(s.home)
		now := l.view(s)
		p := l.policy(&now)
		short := session.Message{Source: schemas.Source{Name: s.name(), Kind: schemas.KindBusy, Key: "k1"}, Seq: 9, At: time.Now(), Activity: schemas.Activity{Released: true}}
		before.Hear(short, p)
		now.Hear(short, p)
		if a, b := fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", now); a != b {
			t.Errorf("known before %s\nand after %s", a, b)
		}
	})
}

// A place that was made stays taken between the swap that makes the session's record and
// when that is read here: nobody else is given it.
func TestAMadePlaceIsGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{Bus: talk{}}))
		l.hear(&stream.Heard{CaughtUp: true})
		l.report(schemas.Host{Host: "a", Slots: 1})
		free := func(p *promise) bool {
			free, _, _, _ := l.room(t.Context(), "a", p, time.Now().Add(patience))
			return free
		}
		first := &promise{}
		if !free(first) {
			t.Fatal("an empty host has no room")
		}
		n := schemas.Name{Tenant: "acme", Session: "new"}
		l.release("a", first, n, "u-new")
		second := &promise{}
		if free(second) {
			t.Error("the place was given twice")
		}
		arrived := seen(l, "a", "new", schemas.Starting, nil, "person")
		if len(l.homeOf("a").promises) != 2 {
			t.Error("another session's record ended the promise")
		}
		v := l.view(arrived)
		v.Record.UID = "u-new"
		l.see(&statekv.Glance{Record: v.Record})
		if at := l.homeOf("a"); len(at.promises) != 1 || len(at.seats) != 1 {
			t.Errorf("%d promises, %d seats", len(at.promises), len(at.seats))
		}
		if free(second) {
			t.Error("there is room beside the new session")
		}
		l.release("a", second, n, "u-new") // as if it had been read before
		if at := l.homeOf("a"); len(at.promises) != 0 {
			t.Errorf("%d promises are left", len(at.promises))
		}
	})
}
