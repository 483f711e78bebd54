package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// said gives a word on a lease.
func said(seq uint64, second float64, from, key string, a schemas.Activity) session.Message {
	return session.Message{Source: schemas.Source{Name: work, Kind: schemas.KindHold, Key: key, From: from}, Activity: a, Seq: seq, At: at(second)}
}

func holds(t *testing.T, v *session.View, p session.Policy, second float64) bool {
	t.Helper()
	return session.Decide(v, p, at(second)).Verdict != session.Suspend
}

func held(v *session.View) session.Policy {
	v.HeardSince = t0
	v.See(schemas.SessionRecord{UID: "u", Tenant: "default", Session: "work", State: schemas.Running, Class: "automation"}, t0)
	p, _ := session.PolicyFor("automation", nil)
	return p
}

const hour = schemas.Duration(time.Hour)

// No stranger ends or shortens a lease that isn't its own; a publisher with credentials ends all of a name.
func TestStrangersEndNoLeaseOfOthers(t *testing.T) {
	alice, bob := schemas.FromUser(1000), schemas.FromUser(1001)
	for name, c := range map[string]struct {
		words []session.Message
		holds bool
	}{
		"a release by a stranger":       {[]session.Message{said(1, 0, "", "cli", schemas.Activity{TTL: hour}), said(2, 1, alice, "cli", schemas.Activity{Released: true})}, true},
		"a shorter one by a stranger":   {[]session.Message{said(1, 0, "", "cli", schemas.Activity{TTL: hour}), said(2, 1, alice, "cli", schemas.Activity{TTL: schemas.Duration(time.Millisecond)})}, true},
		"a stranger's, by another":      {[]session.Message{said(1, 0, alice, "cli", schemas.Activity{TTL: hour}), said(2, 1, bob, "cli", schemas.Activity{Released: true})}, true},
		"a stranger's, from inside":     {[]session.Message{said(1, 0, alice, "cli", schemas.Activity{TTL: hour}), said(2, 1, schemas.FromInside, "cli", schemas.Activity{Released: true})}, true},
		"a stranger's, by itself":       {[]session.Message{said(1, 0, alice, "cli", schemas.Activity{TTL: hour}), said(2, 1, alice, "cli", schemas.Activity{Released: true})}, false},
		"a stranger's, by credentials":  {[]session.Message{said(1, 0, alice, "cli", schemas.Activity{TTL: hour}), said(2, 1, "", "cli", schemas.Activity{Released: true})}, false},
		"another name, by credentials":  {[]session.Message{said(1, 0, alice, "ci", schemas.Activity{TTL: hour}), said(2, 1, "", "cli", schemas.Activity{Released: true})}, true},
		"a later one than the release":  {[]session.Message{said(3, 2, alice, "cli", schemas.Activity{TTL: hour}), said(2, 1, "", "cli", schemas.Activity{Released: true})}, true},
		"its own, by credentials again": {[]session.Message{said(1, 0, "", "cli", schemas.Activity{TTL: hour}), said(2, 1, "", "cli", schemas.Activity{Released: true})}, false},
	} {
		var v session.View
		p := held(&v)
		for _, m := range c.words {
			v.Hear(m, p)
		}
		if got := holds(t, &v, p, 600); got != c.holds {
			t.Errorf("%s: it is kept awake: %v, want %v", name, got, c.holds)
		}
	}
}

// Who publishes more leases than are remembered, and ends them, ends none of others.
func TestStrangersCrowdOutNoLease(t *testing.T) {
	for _, of := range []string{"", schemas.FromUser(1)} {
		var v session.View
		p := held(&v)
		v.Hear(said(1, 0, of, "build", schemas.Activity{TTL: hour}), p)
		seq := uint64(2)
		for _, released := range []bool{false, true} {
			for n := range 1000 {
				a := schemas.Activity{TTL: 24 * hour, Released: released}
				v.Hear(said(seq, 1, schemas.FromUser(uint32(1000+n%7)), fmt.Sprint("x", n), a), p)
				seq++
			}
		}
		if n := len(v.Known().Leases); n > 300 {
			t.Errorf("%d leases are remembered", n)
		}
		if !holds(t, &v, p, 3599) {
			t.Errorf("of %q: its lease is gone after those of others were ended", of)
		}
	}
}

// What strangers say raises no session above others that are to make room.
func TestStrangersRaiseNoScore(t *testing.T) {
	var v session.View
	p := held(&v)
	before := v.Score(p.Score, t0)
	for n := range 50 {
		m := session.Message{Source: schemas.Source{Name: work, Kind: schemas.KindExec, From: schemas.FromUser(1)}, Seq: uint64(n + 1), At: t0}
		v.Hear(m, p)
	}
	if got := v.Score(p.Score, t0); got != before {
		t.Errorf("the score is %v after commands of strangers, it was %v", got, before)
	}
}
