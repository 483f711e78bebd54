package scheduler

import (
	"log/slog"
	"time"
)

// lagMost is how long ago it may be that everything was heard which the stream had, for
// what wasn't heard since to be silence. What is published in between undoes a suspend, as
// it does while one is under way.
const lagMost = 2 * time.Second

// lagEvery is how often it is logged that activity is heard late.
const lagEvery = time.Minute

// lag says how far hearing is behind the stream.
type lag struct {
	log     *slog.Logger
	hearing bool      // everything that was stored has been heard
	through time.Time // up to when everything was heard; zero if the bus doesn't say
	refused time.Time // since when activity isn't taken; zero if it is
	ask     func()    // has it said up to when everything was heard; nil if that is said unasked
	asked   time.Time // since when an answer is waited for; zero if none is
	logged  time.Time // when it was logged last that this is long ago
}

// behind is how long ago everything was heard that was published; 0 if the bus doesn't say.
func (l *lag) behind() time.Duration {
	since := l.through
	if !l.refused.IsZero() && (since.IsZero() || l.refused.Before(since)) {
		since = l.refused
	}
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// inTime reports whether silence is heard as it happens. If not, no session is suspended;
// waking and hearing go on. What is known may be old then only because no session could be
// suspended for a while: so it is asked, and the answer brings a new turn.
func (l *lag) inTime() bool {
	if l.behind() <= lagMost {
		return true
	}
	if l.ask != nil && l.refused.IsZero() { // else the answer would be the same
		if l.asked.IsZero() {
			l.asked = time.Now()
		}
		l.ask()
	}
	return false
}

// heard takes in up to when everything was heard.
func (l *lag) heard(through time.Time) { l.through, l.asked = through, time.Time{} }

// warn logs that suspends are due that wait because activity is heard late.
func (l *lag) warn() {
	if time.Since(l.logged) < lagEvery || l.ask != nil && time.Since(l.asked) < lagMost {
		return
	}
	l.logged = time.Now()
	l.log.Warn("activity is heard late: no session is suspended for idleness until it is known which are in use", "behind", l.behind().Round(time.Millisecond))
}
