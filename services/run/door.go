package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// The bounds of what clients without credentials cause who name sessions that there aren't.
const (
	lookupsPerSecond = 50
	lookupLimit      = 2 * time.Second
	remembered       = 1000 // names that were counted
)

// door tells of which sessions activity without credentials is taken.
type door struct {
	known   func(schemas.Name) bool                                        // of the scheduler
	get     func(context.Context, schemas.Name) (statekv.Versioned, error) // reads a record
	unheard func()                                                         // counts a session that there isn't
	lookups *rate.Limiter

	mu      sync.Mutex
	counted map[schemas.Name]bool
}

func newDoor(known func(schemas.Name) bool, get func(context.Context, schemas.Name) (statekv.Versioned, error), unheard func()) *door {
	return &door{known: known, get: get, unheard: unheard, lookups: rate.NewLimiter(lookupsPerSecond, lookupsPerSecond), counted: map[schemas.Name]bool{}}
}

// admits reports whether there is a session of a name. One that the scheduler hasn't read of yet is looked up,
// unless too many are: of a new session that is what its first moments take.
func (d *door) admits(n schemas.Name) bool {
	if d.known(n) {
		return true
	}
	if schemas.ValidToken(string(n.Tenant)) && schemas.ValidToken(string(n.Session)) && d.lookups.Allow() {
		ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
		defer cancel()
		v, err := d.get(ctx, n)
		if err == nil && (v.State != schemas.Deleted || v.Op != nil) || err != nil && !errors.Is(err, statekv.ErrNoSession) {
			return true // what can't be read may be there
		}
	}
	d.count(n)
	return false
}

// count counts each name once, as long as it is remembered.
func (d *door) count(n schemas.Name) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counted[n] {
		return
	}
	if len(d.counted) >= remembered {
		clear(d.counted)
	}
	d.counted[n] = true
	d.unheard()
}
