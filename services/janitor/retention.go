package janitor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Snapshot is one that there is.
type Snapshot struct {
	Session schemas.Name
	UID     schemas.UID
	Class   string
	Keep    schemas.Keep // in place of the policy's age and count
	Lineage string
	Head    schemas.Head
	At      time.Time
	Bytes   int64 // that it has added to the store
	Dropped bool  // its session's memory is: it goes under every policy
	Needed  bool  // a session's record points at it: it stays under every policy
}

// Deletion is a snapshot that goes, and why.
type Deletion struct {
	Snapshot
	Reason string
}

// Plan decides which snapshots go: first those that are too old, then, of each
// session and of all, the oldest beyond the count, then as many as it takes to be
// within the bytes. What is needed counts, and stays.
func Plan(all []Snapshot, p Policy, now time.Time) []Deletion {
	r := retention{gone: map[schemas.Head]bool{}}
	oldest := slices.SortedFunc(slices.Values(all), byAge)
	for _, s := range oldest {
		if s.Dropped {
			r.delete(s, "its session's memory is dropped")
		}
		if age := p.ageOf(s); age > 0 && now.Sub(s.At) > age {
			r.delete(s, fmt.Sprintf("older than %s", age))
		}
	}
	r.count(oldest, p)
	order := oldest
	if p.Largest {
		order = slices.Clone(oldest)
		slices.SortStableFunc(order, func(a, b Snapshot) int { return cmp.Compare(b.Bytes, a.Bytes) })
	}
	r.bytes(order, p.Bytes)
	return r.deletions
}

// ageOf is how old a snapshot may become; 0 is no limit.
func (p Policy) ageOf(s Snapshot) time.Duration {
	if s.Keep.Age != nil {
		return time.Duration(*s.Keep.Age)
	}
	if age, ok := p.ClassAge[s.Class]; ok {
		return age
	}
	return p.Age
}

// countOf is how many a snapshot's session may have; 0 is no limit.
func (p Policy) countOf(s Snapshot) int {
	if s.Keep.Count != nil {
		return *s.Keep.Count
	}
	return p.Count
}

func byAge(a, b Snapshot) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Head.Name, b.Head.Name))
}

// retention is what was decided so far.
type retention struct {
	gone      map[schemas.Head]bool
	deletions []Deletion
}

func (r *retention) delete(s Snapshot, reason string) bool {
	if s.Needed || r.gone[s.Head] {
		return false
	}
	r.gone[s.Head] = true
	r.deletions = append(r.deletions, Deletion{s, reason})
	return true
}

// count deletes the oldest beyond the counts of a session and of all.
func (r *retention) count(oldest []Snapshot, p Policy) {
	left, of := 0, map[schemas.Name]int{}
	for _, s := range oldest {
		if !r.gone[s.Head] {
			left++
			of[s.Session]++
		}
	}
	for _, s := range oldest {
		most := p.countOf(s)
		if most > 0 && of[s.Session] > most && r.delete(s, fmt.Sprintf("more than %d of the session", most)) {
			of[s.Session]--
			left--
		}
	}
	for _, s := range oldest {
		if p.Overall > 0 && left > p.Overall && r.delete(s, fmt.Sprintf("more than %d in all", p.Overall)) {
			left--
		}
	}
}

func (r *retention) bytes(order []Snapshot, limit int64) {
	if limit == 0 {
		return
	}
	var total int64
	for _, s := range order {
		if !r.gone[s.Head] {
			total += s.Bytes
		}
	}
	for _, s := range order {
		if total > limit && r.delete(s, fmt.Sprintf("more than %d bytes in all", limit)) {
			total -= s.Bytes
		}
	}
}
