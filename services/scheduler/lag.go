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
// waking and hearing go on.
func (l *lag) inTime() bool { return l.behind() <= lagMost }

// warn logs that suspends are due that wait because activity is heard late.
func (l *lag) warn() {
	if time.Since(l.logged) < lagEvery {
		return
	}
	l.logged = time.Now()
	l.log.Warn("activity is heard late: no session is suspended for idleness until it is known which are in use", "behind", l.behind().Round(time.Millisecond))
}
