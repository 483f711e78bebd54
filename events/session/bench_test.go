package session

import (
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

var base = time.Now()

// used gives a session in a state, with some activity and a lease.
func used(state schemas.State) (View, Policy) {
	p, _ := PolicyFor("web", nil)
	v := View{HeardSince: base}
	v.See(schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "s", State: state, Class: "web", Host: "h", Seq: 5}, base)
	v.Hear(Message{Source: schemas.Source{Kind: schemas.KindInput}, Seq: 1, At: base}, p)
	v.Hear(Message{Source: schemas.Source{Kind: schemas.KindPresence, Key: "c"}, Seq: 2, At: base}, p)
	return v, p
}

func BenchmarkDecide(b *testing.B) {
	for _, state := range []schemas.State{schemas.Running, schemas.Suspended} {
		b.Run(string(state), func(b *testing.B) {
			v, p := used(state)
			b.ReportAllocs()
			for b.Loop() {
				Decide(&v, p, base.Add(time.Second))
			}
		})
	}
}

// What a message costs that is heard by a session.
func BenchmarkHear(b *testing.B) {
	v, policy := used(schemas.Running)
	seq := uint64(10)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		v.Hear(Message{Source: schemas.Source{Kind: schemas.KindInput}, Seq: seq, At: base}, policy)
	}
}
