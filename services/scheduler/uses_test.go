package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/session/replay"
	"github.com/diapause/diapause/schemas"
)

// kindRules are policies of other kinds that count, wake, or are ignored.
func kindRules(t *testing.T) (out rules) {
	for _, texts := range [][]string{
		{"grace=30s"}, {"grace=1m", "counts=input,hold", "wakes=input"}, {"grace=2m", "counts=input,exec,http,output,hold", "wakes=none"},
		{"grace=1m", "ignore=busy.a,presence.b"}, {"grace=3m", "counts=presence,hold", "wakes=http,input,exec,heartbeat"}, {"grace=40s", "counts=busy,hold", "wakes=exec"},
	} {
		var w schemas.Policy
		for _, text := range texts {
			if err := w.Assign(text); err != nil {
				t.Fatal(err)
			}
		}
		p, _ := session.PolicyFor("web", nil)
		out = append(out, p.With(w))
	}
	return out
}

// The uses in the use history are the same under any policy, and enough to tell what
// happens under any: sessions that were lived under some kinds sleep, lived again from
// what was written while others held, when they did.
func TestUsesAreEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, length = 60, 6 * time.Hour
		lived, other := newInstant(), newInstant()
		r := rand.New(rand.NewPCG(5, 6))
		var all []session.Message
		for i := range sessions {
			n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", i))}
			lived.add(n)
			other.add(n)
			all = append(all, hours(r, n, lived.from, length)...)
		}
		for i := range all {
			all[i].At = all[i].At.Truncate(time.Millisecond)
		}
		slices.SortStableFunc(all, func(a, b session.Message) int { return a.At.Compare(b.At) })
		for i := range all {
			all[i].Seq = uint64(i + 1)
		}
		policies := kindRules(t)
		lived.live(t, policies, all, length)
		later := time.Since(lived.from)
		other.from = other.from.Add(later)
		for i := range all {
			all[i].At = all[i].At.Add(later)
		}
		other.live(t, append(policies[1:], policies[0]), all, length)
		uses := map[schemas.UID][]schemas.Use{}
		for _, d := range append(other.pages, schemas.UseHistory{Uses: other.going}) {
			for _, u := range d.Uses {
				u.From, u.To = u.From-later.Milliseconds(), max(u.To, u.From)-later.Milliseconds()
				if u.Last != 0 {
					u.Last -= later.Milliseconds()
				}
				uses[u.UID] = append(uses[u.UID], u)
			}
			if d.Lost > 0 {
				t.Errorf("%d uses were lost", d.Lost)
			}
		}
		for n, v := range lived.records(t) {
			p := policies.For(v)
			life := replay.FromUses(v, lived.from, lived.from.Add(length), replay.Times{Uses: uses[v.UID]}, p)
			compare(t, n, lived.naps[n], replay.Run(life, replay.AsTold(p), replay.Costs{}))
		}
	})
}

// Uses are parted while they go on, ended by a silence or a release, and no more of them
// are kept than there is room for.
func TestUses(t *testing.T) {
	first := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return first.Add(time.Duration(seconds) * time.Second) }
	u := newUses()
	say := func(seconds int, k schemas.Kind, key string, a schemas.Activity) {
		u.heard("u", &session.Message{Source: schemas.Source{Kind: k, Key: key}, Activity: a, At: at(seconds)})
	}
	minute := schemas.Activity{TTL: schemas.Duration(time.Minute)}
	say(0, schemas.KindInput, "", schemas.Activity{})
	say(1, schemas.KindInput, "", schemas.Activity{Intent: schemas.IntentReconnect})
	say(0, schemas.KindBusy, "cpu", minute)
	say(10, schemas.KindInput, "", schemas.Activity{})
	say(30, schemas.KindInput, "", schemas.Activity{}) // after 20 s: another
	say(40, schemas.KindBusy, "cpu", schemas.Activity{Released: true})
	say(41, schemas.KindBusy, "cpu", schemas.Activity{Released: true}) // there is no such lease
	say(50, schemas.KindPresence, "c", schemas.Activity{TTL: schemas.Duration(time.Hour)})
	u.sweep(at(60), true)
	u.sweep(at(50+300), true)
	use := func(what string, from, to int, last ...int) schemas.Use {
		out := schemas.Use{UID: "u", What: what, From: at(from).UnixMilli(), To: at(to).UnixMilli()}
		if from == to {
			out.To = 0
		}
		if len(last) > 0 {
			out.Last = at(last[0]).UnixMilli()
		}
		return out
	}
	want := []schemas.Use{use("input", 0, 10), use("busy.cpu", 0, 40), use("input", 30, 30), use("presence.c", 50, 350, 50)}
	if got, lost := u.take(); !slices.Equal(got, want) || lost != 0 {
		t.Errorf("%+v, %d lost, want %+v", got, lost, want)
	}
	if len(u.open) != 1 || !u.open[source{"u", schemas.KindPresence, "c", ""}].from.Equal(at(350)) {
		t.Errorf("%+v goes on", u.open)
	}
	for i := range usesMost {
		u.heard(schemas.UID(fmt.Sprint(i)), &session.Message{Source: schemas.Source{Kind: schemas.KindInput}, At: at(400)})
	}
	if _, lost := u.take(); lost != 1 || len(u.open) != usesMost {
		t.Errorf("%d lost, %d go on", lost, len(u.open))
	}
	u.sweep(at(500), false)
	if len(u.open) != 1 || len(u.page) != 0 {
		t.Errorf("%d go on where nothing is written, %d wait", len(u.open), len(u.page))
	}
}
