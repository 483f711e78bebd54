package worker

import (
	"sync"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// attempts remembers the ops of this process that were to have a session run and executed
// nothing, although the record may say that it runs.
type attempts struct {
	mu   sync.Mutex
	last map[schemas.UID]unrun // by session

	failed map[schemas.UID]failedOp // by session
}

// failedOp is an op that failed with a driver's code.
type failedOp struct{ op, code string }

// unrun is an op that was to have a session run, and why it didn't.
type unrun struct {
	op    string
	tries int
	why   string
}

func newAttempts() *attempts {
	return &attempts{last: map[schemas.UID]unrun{}, failed: map[schemas.UID]failedOp{}}
}

// again notes how an attempt at an op failed, and reports whether the one before it, of the
// same op, failed with the same code of its driver: then the next one would, too.
func (a *attempts) again(uid schemas.UID, op, code string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := failedOp{op, code}
	same := code != "" && a.failed[uid] == now
	a.failed[uid] = now
	return same
}

// note remembers the op of a record.
func (a *attempts) note(rec statekv.Versioned, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last[rec.UID] = unrun{rec.Op.ID, rec.Op.Attempts, cause.Error()}
}

// noted reports whether an op was noted, and no later one of its session.
func (a *attempts) noted(op string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.last {
		if o.op == op {
			return true
		}
	}
	return false
}

// of gives how often the op of a session was tried that was noted last, and why it failed.
func (a *attempts) of(uid schemas.UID) (tries int, why string, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, known := a.last[uid]
	return o.tries, o.why, known
}
