package strangers

import (
	"strings"
	"sync"
	"time"
)

// What publishers without credentials may have stored at a time: subjects of one user about one session, of one user,
// and of all. A stream that is full would drop the oldest, which may be a lease of others.
const (
	MostOfSession = 256
	MostOfUser    = 16 << 10
	MostOfAll     = 64 << 10
)

// Ledger counts what is stored of users without credentials: each subject once, until it has run out.
type Ledger struct {
	mu      sync.Mutex
	entries map[string]entry // by subject
	of      map[account]int
	swept   time.Time
}

type entry struct {
	by    string
	until time.Time
}

// account is whose subjects are counted, and about which session; "" for all.
type account struct{ by, session string }

// sweepEvery is how often it is looked, at most, what has run out where there is no room.
const sweepEvery = time.Second

// Take notes that a message of someone is stored for so long, and reports whether there is room for it.
func (l *Ledger) Take(by, subject string, kept time.Duration, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries, l.of = map[string]entry{}, map[account]int{}
	}
	if _, again := l.entries[subject]; !again {
		if l.full(by, subject) && now.Sub(l.swept) >= sweepEvery {
			l.sweep(now)
		}
		if l.full(by, subject) {
			return false
		}
		for _, a := range accounts(by, subject) {
			l.of[a]++
		}
	}
	l.entries[subject] = entry{by, now.Add(kept)}
	return true
}

func (l *Ledger) full(by, subject string) bool {
	a := accounts(by, subject)
	return l.of[a[0]] >= MostOfSession || l.of[a[1]] >= MostOfUser || len(l.entries) >= MostOfAll
}

// accounts are those that a subject counts for: of one user about one session, and of one user.
func accounts(by, subject string) [2]account {
	words := strings.SplitN(subject, ".", 6) // diapause.v1.activity.<tenant>.<session>.…
	return [2]account{{by, strings.Join(words[:min(5, len(words))], ".")}, {by, ""}}
}

// sweep forgets what has run out.
func (l *Ledger) sweep(now time.Time) {
	l.swept = now
	for subject, e := range l.entries {
		if e.until.After(now) {
			continue
		}
		delete(l.entries, subject)
		for _, a := range accounts(e.by, subject) {
			if l.of[a]--; l.of[a] <= 0 {
				delete(l.of, a)
			}
		}
	}
}
