package worker

import "github.com/diapause/diapause/schemas"

// Counts is how much a worker has to do.
type Counts struct {
	Working int                   // sessions that something is being done to just now
	Hosted  map[schemas.State]int // sessions of this host by state, but those that sleep
}

// Counts says how much there is to do now.
func (w *Worker) Counts() Counts {
	c := Counts{Working: w.actors.working(), Hosted: map[schemas.State]int{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.hosted {
		c.Hosted[r.State]++
	}
	return c
}

func (a *actors) working() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.busy) + len(a.waiting)
}
