package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// many makes what a scheduler reads of n sessions, of which one in ten runs: their
// records, and input of each.
func many(n int) (records []statekv.Glance, said []stream.Heard) {
	for i := range n {
		name := schemas.Name{Tenant: schemas.Tenant(fmt.Sprintf("tenant-%03d", i%997)), Session: schemas.SessionID(fmt.Sprintf("session-%07d", i))}
		state := schemas.Suspended
		if i%10 == 0 {
			state = schemas.Running
		}
		records = append(records, statekv.Glance{Record: schemas.SessionRecord{
			UID: schemas.UID(fmt.Sprint("uid-", i)), Tenant: name.Tenant, Session: name.Session, State: state, Seq: uint64(n), Since: time.Now(), Created: time.Now(),
			Class: session.Classes()[i%3], Host: schemas.HostID(fmt.Sprintf("host-%03d", i%1000)), Driver: "criu", MadeBy: "person", Boot: "clean",
		}})
		said = append(said, stream.Heard{Message: session.Message{Source: schemas.Source{Name: name, Kind: schemas.KindInput}, Seq: uint64(i + 1), At: time.Now()}})
	}
	return records, said
}

// fold measures what one thing that is read costs, for b.N of them.
func fold(b *testing.B, read func(l *loop, records []statekv.Glance, said []stream.Heard, n int)) {
	const n = 100_000
	records, said := many(n)
	l := newLoop(New(Options{Bus: talk{}}))
	defer l.actor.acts.wait()
	l.seeAll(records)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += n {
		read(l, records, said, min(n, b.N-done))
	}
}

func BenchmarkSee(b *testing.B) {
	fold(b, func(l *loop, records []statekv.Glance, _ []stream.Heard, n int) { l.seeAll(records[:n]) })
}

func BenchmarkHear(b *testing.B) {
	seq := uint64(0)
	fold(b, func(l *loop, _ []statekv.Glance, said []stream.Heard, n int) {
		for i := range said[:n] {
			seq++
			said[i].Message.Seq = seq
		}
		l.hearAll(said[:n])
	})
}

// Deciding about sessions at a start, of which nine in ten rest.
func BenchmarkDecideAll(b *testing.B) {
	fold(b, func(l *loop, records []statekv.Glance, _ []stream.Heard, n int) {
		l.agenda.open = true
		l.table.heardSince = time.Now() // nothing is due
		i := 0
		for _, t := range l.table.sessions {
			if i++; i > n {
				break
			}
			l.agenda.queue.drop(t)
			l.decide(b.Context(), t)
		}
	})
}

// What each message of a million sessions costs besides finding its session.
func BenchmarkPackedHear(b *testing.B) {
	policy, _ := session.PolicyFor("web", nil)
	n := schemas.Name{Tenant: "acme", Session: "s"}
	v := session.View{HeardSince: base}
	v.See(schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "s", State: schemas.Running, Class: "web", Host: "h", Seq: 5}, base)
	v.Hear(session.Message{Source: schemas.Source{Name: n, Kind: schemas.KindPresence, Key: "c"}, Seq: 2, At: base}, policy)
	var p packed
	p.pack(&v, base)
	seq := uint64(10)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		u := p.unpack(n, base, base)
		u.Hear(session.Message{Source: schemas.Source{Name: n, Kind: schemas.KindInput}, Seq: seq, At: base}, policy)
		p.packHeard(&u, base)
	}
}
