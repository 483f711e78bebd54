package scheduler

import (
	"math"
	"time"
	"unique"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// packed is a session.View in few bytes, since there may be a million of them: names that
// many sessions share are kept once, times are counted from one moment, and what few
// sessions have takes no memory in the others. It is unpacked to hear, see or decide
// something, and packed again. The zero packed knows nothing.
//
// Of the record it keeps what a statekv.Glance has, except version, epoch and generation; of archived
// whether it is; of op and failure it keeps all.
type packed struct {
	uid     schemas.UID
	traits  unique.Handle[traits]
	created int64
	entered int64 // the record's since
	born    uint64
	seq     uint64 // of the record

	since  int64
	until  int64
	leased int64
	heard  uint64
	last   packedMark
	waking packedMark
	rare   *rare

	commands uint8
}

// traits are what many sessions have in common.
type traits struct {
	state     schemas.State
	class     string
	driver    schemas.DriverName
	madeBy    schemas.MadeBy
	onBreaker schemas.OnBreaker
	onResume  schemas.OnResume
	boot      schemas.Boot
	host      schemas.HostID
	ruled     bool
	idle      schemas.Idle
	archived  bool
}

// rare is what few sessions have.
type rare struct {
	op      *schemas.Op
	failure *schemas.Failure
	leases  []session.Lease
	noticed time.Time
}

// packedMark is a session.Mark whose time is counted from a base.
type packedMark struct {
	seq  uint64
	at   int64
	what unique.Handle[string]
}

// pack stores the view. Its times are stored as distances from base, which has to be the
// same in all calls and should carry a monotonic clock, so that setting the wall clock
// changes nothing. The name and HeardSince are the caller's to keep.
func (p *packed) pack(v *session.View, base time.Time) {
	r := &v.Record
	t := traits{r.State, r.Class, r.Driver, r.MadeBy, r.OnBreaker, r.OnResume, r.Boot, r.Host, r.Idle != nil, schemas.Idle{}, r.Archived != nil}
	if r.Idle != nil {
		t.idle = *r.Idle
	}
	if p.traits == (unique.Handle[traits]{}) || p.traits.Value() != t {
		p.traits = unique.Make(t)
	}
	p.uid, p.created, p.entered = r.UID, offset(r.Created, base), offset(r.Since, base)
	p.born, p.seq = r.Born, r.Seq
	known := v.Known()
	p.packRare(rare{r.Op, r.Failure, known.Leases, known.Noticed})
	p.packHeard(v, base)
}

// packHeard is pack for a view whose record is the one that was packed before: it has
// heard something, or decided.
func (p *packed) packHeard(v *session.View, base time.Time) {
	known := v.Known()
	p.since, p.until, p.leased = offset(known.Since, base), offset(known.Until, base), offset(known.Leased, base)
	p.heard, p.commands = known.Seq, known.Commands
	p.last.pack(known.Last, base)
	p.waking.pack(known.Waking, base)
	if p.rare != nil || len(known.Leases) > 0 || !known.Noticed.IsZero() {
		p.packRare(rare{v.Record.Op, v.Record.Failure, known.Leases, known.Noticed})
	}
}

func (p *packed) packRare(r rare) {
	switch {
	case r.op == nil && r.failure == nil && len(r.leases) == 0 && r.noticed.IsZero():
		p.rare = nil
	case p.rare == nil:
		p.rare = &r
	default:
		*p.rare = r
	}
}

func (p *packedMark) pack(m session.Mark, base time.Time) {
	if p.seq == m.Seq && p.what != (unique.Handle[string]{}) {
		return // the same message
	}
	p.seq, p.at = m.Seq, offset(m.At, base)
	if p.what == (unique.Handle[string]{}) || p.what.Value() != m.What {
		p.what = unique.Make(m.What)
	}
}

// unpack gives the view back. It shares leases with the packed one, which has to be packed
// again after the view changed.
func (p *packed) unpack(n schemas.Name, base, heardSince time.Time) session.View {
	t := p.shared()
	v := session.View{
		HeardSince: heardSince,
		Record: schemas.SessionRecord{
			UID: p.uid, Tenant: n.Tenant, Session: n.Session, State: t.state, Class: t.class, Driver: t.driver, MadeBy: t.madeBy,
			OnBreaker: t.onBreaker, OnResume: t.onResume, Boot: t.boot, Host: t.host, Created: moment(p.created, base), Since: moment(p.entered, base), Born: p.born, Seq: p.seq,
		},
	}
	known := v.Known()
	known.Since, known.Until, known.Leased = moment(p.since, base), moment(p.until, base), moment(p.leased, base)
	known.Seq, known.Commands = p.heard, p.commands
	known.Last, known.Waking = p.last.unpack(base), p.waking.unpack(base)
	if t.ruled {
		idle := t.idle
		v.Record.Idle = &idle
	}
	if t.archived {
		v.Record.Archived = &schemas.Archived{}
	}
	if r := p.rare; r != nil {
		v.Record.Op, v.Record.Failure, known.Leases, known.Noticed = r.op, r.failure, r.leases, r.noticed
	}
	return v
}

func (p *packed) shared() traits {
	if p.traits == (unique.Handle[traits]{}) {
		return traits{}
	}
	return p.traits.Value()
}

func (p packedMark) unpack(base time.Time) session.Mark {
	m := session.Mark{Seq: p.seq, At: moment(p.at, base)}
	if p.what != (unique.Handle[string]{}) {
		m.What = p.what.Value()
	}
	return m
}

// state is the record's.
func (p *packed) state() schemas.State { return p.shared().state }

// host is the record's.
func (p *packed) host() schemas.HostID { return p.shared().host }

// op is the record's, nil if nothing is under way.
func (p *packed) op() *schemas.Op {
	if p.rare == nil {
		return nil
	}
	return p.rare.op
}

// woken reports whether the session was heard to be used since the last transition that
// was decided on activity: only then a suspended one may have to be woken.
func (p *packed) woken() bool { return p.waking.seq > p.seq }

// rests reports that Decide leaves the session alone until its record changes or something
// is heard, under any policy and at any time: true of most of a million, which needn't be
// unpacked to find that out.
func (p *packed) rests() bool {
	switch t := p.shared(); t.state {
	case schemas.Running:
		return false
	case schemas.Suspended:
		return t.archived || !p.woken()
	}
	return true
}

// offset gives the distance of a time from base, plus one from 0 on: 0 stands for the zero
// time.
func offset(t, base time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	d := int64(t.Sub(base))
	if d >= 0 && d < math.MaxInt64 {
		d++
	}
	return d
}

// moment is the inverse of offset.
func moment(d int64, base time.Time) time.Time {
	switch {
	case d == 0:
		return time.Time{}
	case d > 0:
		d--
	}
	return base.Add(time.Duration(d))
}
