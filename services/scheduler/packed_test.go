package scheduler

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

var base = time.Now()

// fill gives every field that v reaches a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	if v.CanAddr() && !v.CanSet() { // unexported
		v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	}
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = base.Add(time.Duration(*n) * time.Minute)
		return
	case *schemas.Transition:
		return // it may hold a record again; and it isn't kept
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		key, one := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(one, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, one)
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		v.SetInt(int64(*n % 100))
	case reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		v.SetUint(uint64(*n % 100))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	default:
		panic("a View has a field of a kind that this test doesn't know: " + v.Type().String())
	}
}

// kept is the part of a record that packed says it keeps.
func kept(r schemas.SessionRecord) schemas.SessionRecord {
	if r.Archived != nil {
		r.Archived = &schemas.Archived{}
	}
	return schemas.SessionRecord{
		UID: r.UID, Tenant: r.Tenant, Session: r.Session, State: r.State, Since: r.Since, Created: r.Created, Born: r.Born, Class: r.Class,
		Driver: r.Driver, Host: r.Host, MadeBy: r.MadeBy, Idle: r.Idle, OnBreaker: r.OnBreaker, OnResume: r.OnResume, Op: r.Op, Boot: r.Boot, Failure: r.Failure, Seq: r.Seq, Archived: r.Archived,
	}
}

// A view comes back as it was packed, with every field that a view has.
func TestPack(t *testing.T) {
	var leased session.View
	leased.Known().Leases = []session.Lease{{Mark: session.Mark{Seq: 3, At: base.Add(1), What: "hold.x"}, Until: base.Add(2)}}
	for name, v := range map[string]session.View{"all": {}, "nothing": {}, "a lease": leased} {
		if name == "all" {
			n := 0
			fill(reflect.ValueOf(&v).Elem(), &n)
		}
		v.Record = kept(v.Record)
		var p packed
		p.pack(&v, base)
		for range 2 {
			got := p.unpack(v.Record.Name(), base, v.HeardSince)
			if !reflect.DeepEqual(got, v) {
				t.Errorf("%s: packed and unpacked\n     %+v\nwant %+v", name, got, v)
			}
			p.packHeard(&got, base)
		}
	}
}

// What is heard, seen and decided is the same, whether a view was packed in between or
// not.
func TestPackedDecidesAlike(t *testing.T) {
	policy, _ := session.PolicyFor("web", nil)
	name := schemas.Name{Tenant: "acme", Session: "s"}
	plain := session.View{HeardSince: base}
	var p packed
	both := func(do func(v *session.View)) {
		do(&plain)
		v := p.unpack(name, base, base)
		do(&v)
		p.pack(&v, base)
	}
	r := schemas.SessionRecord{UID: "u", Tenant: "acme", Session: "s", State: schemas.Running, Class: "web", Host: "h", Op: &schemas.Op{Kind: schemas.OpBegin}}
	both(func(v *session.View) { v.See(r, base) })
	r.Op = nil // its host has started it: its grace begins
	both(func(v *session.View) { v.See(r, base.Add(time.Second)) })
	kinds := []schemas.Kind{schemas.KindInput, schemas.KindBusy, schemas.KindPresence, schemas.KindOutput}
	for i := range 60 {
		at := base.Add(time.Duration(i) * 37 * time.Second)
		m := session.Message{Source: schemas.Source{Name: name, Kind: kinds[i%len(kinds)]}, Seq: uint64(i + 1), At: at}
		if m.Source.Kind.Lease() {
			m.Source.Key, m.Activity.TTL = fmt.Sprint("k", i%3), schemas.Duration(time.Duration(i)*time.Second)
		}
		both(func(v *session.View) { v.Hear(m, policy) })
		for _, after := range []time.Duration{0, time.Minute, time.Hour} {
			v := p.unpack(name, base, base)
			if got, want := session.Decide(&v, policy, at.Add(after)), session.Decide(&plain, policy, at.Add(after)); !reflect.DeepEqual(got, want) {
				t.Fatalf("after message %d, decided on what was packed: %+v\nwant %+v", i, got, want)
			}
		}
	}
}

// What rests is left alone by Decide, now and ever after, and nothing of it changes; of
// what Decide would do something about nothing rests.
func TestRests(t *testing.T) {
	states := []schemas.State{schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming, schemas.Exited, schemas.Failed, schemas.Deleted, ""}
	var resting, acted int
	rapid.Check(t, func(t *rapid.T) {
		policy, _ := session.PolicyFor("slack", nil)
		v := session.View{HeardSince: base}
		r := schemas.SessionRecord{UID: "u", State: rapid.SampledFrom(states).Draw(t, "state"), Seq: rapid.Uint64Range(0, 9).Draw(t, "seq")}
		if rapid.Bool().Draw(t, "has an op") {
			r.Op = &schemas.Op{Kind: schemas.OpSuspend}
		}
		if rapid.Bool().Draw(t, "is archived") && r.State == schemas.Suspended {
			r.Archived = &schemas.Archived{}
		}
		if rapid.Bool().Draw(t, "has a failure") {
			r.Failure = &schemas.Failure{Op: schemas.OpResume, Count: 1, At: base}
		}
		v.See(r, base)
		for i := range rapid.IntRange(0, 5).Draw(t, "messages") {
			m := session.Message{Source: schemas.Source{Kind: rapid.SampledFrom(schemas.Kinds()).Draw(t, "kind")}, Seq: uint64(2 * (i + 1)), At: base.Add(time.Duration(i) * time.Minute)}
			if m.Source.Kind.Lease() {
				m.Source.Key = "k"
			}
			v.Hear(m, policy)
		}
		var p packed
		p.pack(&v, base)
		before := p
		u := p.unpack(schemas.Name{}, base, base)
		d := session.Decide(&u, policy, base.Add(time.Duration(rapid.Int64Range(0, 1e13).Draw(t, "after"))))
		switch {
		case !p.rests():
			acted++
		case d.Verdict != session.Leave || !d.Next.IsZero():
			t.Fatalf("a session that is %s and rests: %+v", r.State, d)
		default:
			resting++
		}
		if p.pack(&u, base); before.rests() && !reflect.DeepEqual(p, before) {
			t.Fatalf("deciding changed a session that rests: %+v, it was %+v", p, before)
		}
	})
	if resting == 0 || acted == 0 {
		t.Errorf("%d rested, %d didn't", resting, acted)
	}
}

// A million sessions are remembered: each has to be small.
func TestPackedIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(packed{}); size > 160 {
		t.Errorf("each session takes %d bytes and what it points to", size)
	}
}
