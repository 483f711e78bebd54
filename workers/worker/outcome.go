package worker

// What became of a start or a restore is decided here, at one place: a session must never run
// twice, and must not be lost while it may still run. outcomeOf is pure; starter.settle
// gathers its facts and does what it says.

// facts is what is known when a driver's Start or Restore has returned.
type facts struct {
	failed   bool // it returned an error; the facts below are of that
	unknown  bool // no answer came whether the record was changed
	unleased bool // the host's lease had run out
	stopping bool // the worker is being stopped
	moved    bool // the record asks for something else by now

	recorded bool // the record says that the session runs
	here     bool // its processes are on this host
	unheard  bool // whether they are can't be said now, and the driver says so later
	neverRan bool // none of its instructions was executed: the driver knows nothing of it

	orphan  bool // it is a fork that has not run yet, and its snapshot is gone
	passing bool // what went wrong may pass, and attempts are left
}

// outcome is what to do about a start or a restore that returned.
type outcome int

const (
	succeeded    outcome = iota
	noteUnknown          // note that it may not have run, and look at the record again
	lookAgain            // look at the record and the host again
	takeBack             // undo the record: start or restore it once more, or record why not
	recordLost           // record that it should be on this host and isn't
	removeOrphan         // remove the fork
	retry                // try the same op again
	recordFailed         // record that the op failed
)

// outcomeOf decides what to do. The order of the cases is part of it: as long as the record
// may say that the session runs and the driver may have it, nothing starts it once more.
func outcomeOf(f facts) outcome {
	switch {
	case !f.failed:
		return succeeded
	case f.unknown, f.unleased:
		return noteUnknown
	case f.stopping, f.moved:
		return lookAgain
	case f.recorded && f.here:
		return lookAgain
	case f.recorded && f.unheard:
		return noteUnknown
	case f.recorded && f.neverRan:
		return takeBack
	case f.recorded:
		return recordLost
	case f.orphan:
		return removeOrphan
	case f.passing:
		return retry
	}
	return recordFailed
}
