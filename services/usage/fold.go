package usage

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// Amount is what one session used between two edges.
type Amount struct {
	Running, Suspended, Other      time.Duration
	ByteSeconds                    float64
	Used, Saved                    float64 // bytes that were captured last, times seconds: while it ran, and while it slept
	Captured, Written              int64   // bytes
	Suspends, Resumes, Checkpoints int64
	Wakes                          int64 // resumes that activity began
}

// Plus adds two amounts.
func (a Amount) Plus(b Amount) Amount {
	return Amount{
		Running: a.Running + b.Running, Suspended: a.Suspended + b.Suspended, Other: a.Other + b.Other,
		ByteSeconds: a.ByteSeconds + b.ByteSeconds, Used: a.Used + b.Used, Saved: a.Saved + b.Saved, Captured: a.Captured + b.Captured, Written: a.Written + b.Written,
		Suspends: a.Suspends + b.Suspends, Resumes: a.Resumes + b.Resumes, Checkpoints: a.Checkpoints + b.Checkpoints, Wakes: a.Wakes + b.Wakes,
	}
}

// Wire gives the amount as it travels.
func (a Amount) Wire() schemas.Amount {
	return schemas.Amount{
		RunningSeconds: a.Running.Seconds(), SuspendedSeconds: a.Suspended.Seconds(), OtherSeconds: a.Other.Seconds(),
		StoredByteSeconds: a.ByteSeconds, UsedByteSeconds: a.Used, SavedByteSeconds: a.Saved, CapturedBytes: a.Captured, WrittenBytes: a.Written,
		Suspends: a.Suspends, Resumes: a.Resumes, Wakes: a.Wakes, Checkpoints: a.Checkpoints,
	}
}

// Session is what is known of one session. There may be a million: it is small.
type Session struct {
	Name   schemas.Name
	UID    schemas.UID
	State  schemas.State
	Stored int64 // bytes of its images in the store

	captured int64    // bytes of its last capture
	began    int64    // when it was made, or first seen, in nanoseconds
	floor    int64    // nothing before it is counted
	mark     int64    // all before it is counted
	amounts  []Amount // by zone: before the first edge, between it and the next, …; nil for nothing
	earlier  *Session // of the same name
	gone     bool     // nothing of it is left to count
}

// In gives what it used in a zone: 0 is the time before the first edge, 1 that from it to
// the second, and so on.
func (s *Session) In(zone int) Amount {
	if s.amounts == nil {
		return Amount{}
	}
	return s.amounts[zone]
}

// Began is when it was made, or first seen, or since when it is counted.
func (s *Session) Began() time.Time { return time.Unix(0, max(s.began, s.floor)).UTC() }

// asleep reports whether it has only slept since it was counted last: what that comes to
// may as well be counted later.
func (s *Session) asleep() bool { return s.State == schemas.Suspended && s.amounts == nil }

// measure is what a session's images were found to take.
type measure struct {
	at, bytes int64
}

// life is one session of a name.
type life struct {
	name schemas.Name
	uid  schemas.UID
}

// Fold sums up what sessions use. Its edges are times at which sums are to be divided.
type Fold struct {
	edges    []int64
	days     *days                     // if sums of days are wanted
	sessions map[schemas.Name]*Session // the last of each name; they know the earlier ones
	tenants  map[schemas.Tenant]schemas.Tenant
	measured map[life][]measure // that are to come
	// floor, if given, says of a session that is seen first before when nothing of it
	// is to be counted.
	floor func(schemas.Name, schemas.UID) time.Time
}

// NewFold makes one that has summed up nothing. The edges are in order.
func NewFold(edges ...time.Time) *Fold {
	f := &Fold{sessions: map[schemas.Name]*Session{}, tenants: map[schemas.Tenant]schemas.Tenant{}, measured: map[life][]measure{}}
	for _, e := range edges {
		f.edges = append(f.edges, nanoseconds(e))
	}
	return f
}

// nanoseconds gives a time as a number; the zero time is before all others.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixNano()
}

// behind is how much earlier than the log stored it a transition may say that it was
// made: a swap is repeated for as long as NATS is away. One that says more has a wrong
// clock.
const behind = time.Hour

// moment says when a revision was made: as its writer says, within what the log's clock
// allows.
func moment(v statekv.Versioned) int64 {
	at := v.Transition.At
	switch {
	case v.Stored.IsZero():
	case at.After(v.Stored):
		at = v.Stored
	case at.Before(v.Stored.Add(-behind)):
		at = v.Stored.Add(-behind)
	}
	return nanoseconds(at)
}

// Add takes the next revision of a record.
func (f *Fold) Add(v statekv.Versioned) {
	at, n := moment(v), v.Name()
	s := f.sessions[n]
	if s == nil || s.UID != v.UID {
		s = f.begin(v, at, s)
	}
	f.advance(s, at)
	s.State = v.State
	if v.Size != nil {
		s.captured = max(v.Size.Logical, 0)
	}
	f.count(s, v)
}

// begin makes a session that is seen first; earlier is the one that had its name, which
// is no more.
func (f *Fold) begin(v statekv.Versioned, at int64, earlier *Session) *Session {
	if earlier != nil {
		f.advance(earlier, at)
		earlier.State, earlier.Stored, earlier.gone = schemas.Deleted, 0, true
	}
	n := v.Name()
	if known, ok := f.tenants[n.Tenant]; ok {
		n.Tenant = known // one text for all of its sessions
	} else {
		f.tenants[n.Tenant] = n.Tenant
	}
	s := &Session{Name: n, UID: v.UID, State: v.State, began: at, floor: math.MinInt64, mark: at, earlier: earlier}
	if f.floor != nil {
		s.floor = nanoseconds(f.floor(n, v.UID))
	}
	f.sessions[n] = s
	return s
}

// add adds to what a session used at a time.
func (f *Fold) add(s *Session, at int64, a Amount) {
	if at < s.floor || a == (Amount{}) {
		return // counted before, or nothing
	}
	if s.amounts == nil {
		s.amounts = make([]Amount, len(f.edges)+1)
	}
	zone := f.zone(at)
	s.amounts[zone] = s.amounts[zone].Plus(a)
	f.days.add(s.Name.Tenant, at, a)
}

// count counts what a revision is about, at the session's mark.
func (f *Fold) count(s *Session, v statekv.Versioned) {
	var a Amount
	switch t := v.Transition; t.Type {
	case schemas.TSuspended, schemas.TAdopted:
		a.Suspends++
		s.store(&a, t.Set.Size)
	case schemas.TCheckpointed:
		a.Checkpoints++
		s.store(&a, t.Set.Size)
	case schemas.TRewritten:
		s.store(&a, t.Set.Size)
	case schemas.TResume:
		if t.Evidence != nil && t.Evidence.Activity != "" {
			a.Wakes++
		}
	case schemas.TResumed, schemas.TRevived:
		a.Resumes++
	case schemas.TRemoved, schemas.TShredded:
		s.Stored = 0
	}
	f.add(s, s.mark, a)
	s.gone = v.State == schemas.Deleted && s.Stored == 0 && v.Op == nil
}

func (s *Session) store(a *Amount, size *schemas.Sizes) {
	if size == nil {
		return
	}
	a.Captured += max(size.Logical, 0)
	a.Written += max(size.Stored, 0)
	s.Stored += max(size.Stored, 0)
}

// Measured says how many bytes of a session's images were in the store at a time: what
// was deleted since they were written is known from this alone. It counts from when the
// log has come that far.
func (f *Fold) Measured(n schemas.Name, uid schemas.UID, at time.Time, bytes int64) {
	l := life{n, uid}
	all := append(f.measured[l], measure{nanoseconds(at), max(bytes, 0)})
	slices.SortStableFunc(all, func(a, b measure) int { return cmp.Compare(a.at, b.at) })
	f.measured[l] = all
}

// stored is what a session's images take after all that was added.
func (f *Fold) stored(n schemas.Name, uid schemas.UID) (bytes int64, known bool) {
	s := f.sessions[n]
	if s == nil || s.UID != uid {
		return 0, false
	}
	if measured := f.measured[life{n, uid}]; len(measured) > 0 && !s.gone {
		return measured[len(measured)-1].bytes, true
	}
	return s.Stored, true
}

// advance counts a session's time up to at, measures on the way.
func (f *Fold) advance(s *Session, at int64) {
	l := life{s.Name, s.UID}
	all := f.measured[l]
	for ; len(all) > 0 && all[0].at <= at; all = all[1:] {
		f.pass(s, all[0].at)
		if !s.gone {
			s.Stored = all[0].bytes
		}
		if f.measured[l] = all[1:]; len(all) == 1 {
			delete(f.measured, l)
		}
	}
	f.pass(s, at)
}

// pass counts a session's time up to at, as it is now. Time that is counted is never
// counted again: one that goes back stands still.
func (f *Fold) pass(s *Session, at int64) {
	for at > s.mark {
		until := at
		if zone := f.zone(s.mark); zone < len(f.edges) {
			until = min(until, f.edges[zone])
		}
		if s.mark < s.floor {
			until = min(until, s.floor)
		}
		until = min(until, f.days.end(s.mark))
		if s.State != schemas.Deleted || s.Stored > 0 {
			f.add(s, s.mark, s.spent(time.Duration(until-s.mark)))
		}
		f.days.passed(s, until)
		s.mark = until
	}
}

// spent is what some time in its state comes to.
func (s *Session) spent(d time.Duration) Amount {
	a := Amount{ByteSeconds: float64(s.Stored) * d.Seconds()}
	switch s.State {
	case schemas.Running, schemas.Suspending:
		a.Running, a.Used = d, float64(s.captured)*d.Seconds()
	case schemas.Suspended:
		a.Suspended, a.Saved = d, float64(s.captured)*d.Seconds()
	case schemas.Deleted, schemas.Template:
	default:
		a.Other = d
	}
	return a
}

// zone says which zone a time is in. An edge belongs to the zone after it.
func (f *Fold) zone(at int64) int { return zone(f.edges, at) }

func zone(edges []int64, at int64) int {
	return sort.Search(len(edges), func(i int) bool { return at < edges[i] })
}

// Advance counts the time of all sessions up to at, as they are now, but for those that
// later says may be counted later.
func (f *Fold) Advance(at time.Time, later func(*Session) bool) {
	for s := range f.Sessions {
		if !later(s) {
			f.advance(s, nanoseconds(at))
		}
	}
}

// Sessions gives all sessions, in no order, but those of a name with the last first.
func (f *Fold) Sessions(yield func(*Session) bool) {
	for _, last := range f.sessions {
		for s := last; s != nil; s = s.earlier {
			if !yield(s) {
				return
			}
		}
	}
}

// Shift makes what was after the first edge the first zone, and adds an edge after the
// last. What was in the first zone is dropped, or put to the second if keep says so.
func (f *Fold) Shift(edge time.Time, keep func(*Session) bool) {
	f.edges = append(f.edges[1:], nanoseconds(edge))
	for s := range f.Sessions {
		if s.amounts != nil {
			s.shift(keep(s))
		}
	}
	for n, last := range f.sessions {
		if last = living(last); last == nil {
			delete(f.sessions, n)
		} else {
			f.sessions[n] = last
		}
	}
	for l := range f.measured { // of sessions that are gone
		if _, ok := f.sessions[l.name]; !ok {
			delete(f.measured, l)
		}
	}
}

func (s *Session) shift(keep bool) {
	first := s.amounts[0]
	s.amounts = append(s.amounts[1:], Amount{})
	if keep {
		s.amounts[0] = s.amounts[0].Plus(first)
	}
	if !slices.ContainsFunc(s.amounts, func(a Amount) bool { return a != Amount{} }) {
		s.amounts = nil
	}
}

// living leaves out the sessions of a name that are gone and of which all was said.
func living(s *Session) *Session {
	if s == nil {
		return nil
	}
	if s.earlier = living(s.earlier); s.gone && s.amounts == nil {
		return s.earlier
	}
	return s
}
