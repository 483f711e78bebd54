package session

import (
	"math"
	"time"
	"unique"

	"github.com/diapause/diapause/schemas"
)

// Packed is a View in few bytes, for who keeps a million of them: names that many
// sessions share are kept once, times are counted from one moment, and what few
// sessions have takes no room in the others. It is unpacked to hear, see or decide
// something, and packed again. The zero Packed knows nothing.
//
// Of the record it keeps what a statekv.Glance has, but for version, epoch and
// generation; of op and failure it keeps the whole.
type Packed struct {
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
	boot      schemas.Boot
	host      schemas.HostID
	ruled     bool
	idle      schemas.Idle
}

// rare is what few sessions have.
type rare struct {
	op      *schemas.Op
	failure *schemas.Failure
	leases  []Lease
	noticed time.Time
}

// packedMark is a Mark whose time is counted from somewhere.
type packedMark struct {
	seq  uint64
	at   int64
	what unique.Handle[string]
}

// Pack takes the view in: of its times the distance from base, which has to be the
// same one ever after and should carry a monotonic clock, so that a wall clock that is
// set changes nothing. The name and HeardSince are for the caller to keep.
func (p *Packed) Pack(v *View, base time.Time) {
	r := &v.Record
	t := traits{r.State, r.Class, r.Driver, r.MadeBy, r.OnBreaker, r.Boot, r.Host, r.Idle != nil, schemas.Idle{}}
	if r.Idle != nil {
		t.idle = *r.Idle
	}
	if p.traits == (unique.Handle[traits]{}) || p.traits.Value() != t {
		p.traits = unique.Make(t)
	}
	p.uid, p.created, p.entered = r.UID, pack(r.Created, base), pack(r.Since, base)
	p.born, p.seq = r.Born, r.Seq
	p.packRare(rare{r.Op, r.Failure, v.leases, v.noticed})
	p.PackHeard(v, base)
}

// PackHeard is Pack for a view whose record is the one that was packed before: it has
// heard something, or decided.
func (p *Packed) PackHeard(v *View, base time.Time) {
	p.since, p.until, p.leased = pack(v.since, base), pack(v.until, base), pack(v.leased, base)
	p.heard, p.commands = v.seq, v.commands
	p.last.pack(v.last, base)
	p.waking.pack(v.waking, base)
	if p.rare != nil || len(v.leases) > 0 || !v.noticed.IsZero() {
		p.packRare(rare{v.Record.Op, v.Record.Failure, v.leases, v.noticed})
	}
}

func (p *Packed) packRare(r rare) {
	switch {
	case r.op == nil && r.failure == nil && len(r.leases) == 0 && r.noticed.IsZero():
		p.rare = nil
	case p.rare == nil:
		p.rare = &r
	default:
		*p.rare = r
	}
}

func (p *packedMark) pack(m Mark, base time.Time) {
	if p.seq == m.Seq && p.what != (unique.Handle[string]{}) {
		return // the same message
	}
	p.seq, p.at = m.Seq, pack(m.At, base)
	if p.what == (unique.Handle[string]{}) || p.what.Value() != m.What {
		p.what = unique.Make(m.What)
	}
}

// Unpack gives the view back. It shares leases with the Packed, which is therefore to
// be packed again if the view changes.
func (p *Packed) Unpack(n schemas.Name, base, heardSince time.Time) View {
	t := p.shared()
	v := View{
		HeardSince: heardSince, since: unpack(p.since, base), until: unpack(p.until, base), leased: unpack(p.leased, base),
		seq: p.heard, commands: p.commands, last: p.last.unpack(base), waking: p.waking.unpack(base),
		Record: schemas.SessionRecord{
			UID: p.uid, Tenant: n.Tenant, Session: n.Session, State: t.state, Class: t.class, Driver: t.driver, MadeBy: t.madeBy,
			OnBreaker: t.onBreaker, Boot: t.boot, Host: t.host, Created: unpack(p.created, base), Since: unpack(p.entered, base), Born: p.born, Seq: p.seq,
		},
	}
	if t.ruled {
		idle := t.idle
		v.Record.Idle = &idle
	}
	if r := p.rare; r != nil {
		v.Record.Op, v.Record.Failure, v.leases, v.noticed = r.op, r.failure, r.leases, r.noticed
	}
	return v
}

func (p *Packed) shared() traits {
	if p.traits == (unique.Handle[traits]{}) {
		return traits{}
	}
	return p.traits.Value()
}

func (p packedMark) unpack(base time.Time) Mark {
	m := Mark{Seq: p.seq, At: unpack(p.at, base)}
	if p.what != (unique.Handle[string]{}) {
		m.What = p.what.Value()
	}
	return m
}

// UID is the record's; empty before one was seen.
func (p *Packed) UID() schemas.UID { return p.uid }

// State is the record's.
func (p *Packed) State() schemas.State { return p.shared().state }

// Host is the record's.
func (p *Packed) Host() schemas.HostID { return p.shared().host }

// Op is the record's, nil if nothing is under way.
func (p *Packed) Op() *schemas.Op {
	if p.rare == nil {
		return nil
	}
	return p.rare.op
}

// Woken reports whether the session was heard to be used since the last transition
// that was decided on activity: what a suspended one needs for more than sleep.
func (p *Packed) Woken() bool { return p.waking.seq > p.seq }

// Rests reports that Decide leaves the session alone until its record changes or
// something is heard, whatever its policy and the time: most of a million, which needn't
// be unpacked to know that.
func (p *Packed) Rests() bool {
	switch p.State() {
	case schemas.Running:
		return false
	case schemas.Suspended:
		return !p.Woken()
	}
	return true
}

// pack gives the distance of a time from base, moved aside by one from 0 on: 0 stands
// for the zero time.
func pack(t, base time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	d := int64(t.Sub(base))
	if d >= 0 && d < math.MaxInt64 {
		d++
	}
	return d
}

func unpack(d int64, base time.Time) time.Time {
	switch {
	case d == 0:
		return time.Time{}
	case d > 0:
		d--
	}
	return base.Add(time.Duration(d))
}
