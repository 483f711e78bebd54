package scheduler

import "time"

// lateAtMost is how long ago it may be that all was heard which the stream had, for what
// wasn't heard since to be silence. What is said in between undoes a suspend, as it does
// while one is under way.
const lateAtMost = 2 * time.Second

// behind is how long ago all was heard that the stream had; 0 if that isn't told.
func (l *loop) behind() time.Duration {
	if l.through.IsZero() {
		return 0
	}
	return time.Since(l.through)
}

// abreast reports whether silence is heard as it is: else nobody is suspended. Waking goes
// on, and so does hearing.
func (l *loop) abreast() bool { return l.behind() <= lateAtMost }

// lateEvery is how often it is logged that what is said is heard late.
const lateEvery = time.Minute

// late says that suspends are due that have to wait for what is heard late.
func (l *loop) late() {
	if len(l.pace.hungry) == 0 || time.Since(l.lateSaid) < lateEvery {
		return
	}
	l.lateSaid = time.Now()
	l.s.Log.Warn("what is said of sessions is heard late: nobody is suspended for idleness before it is known who is in use", "behind", l.behind().Round(time.Millisecond))
}
