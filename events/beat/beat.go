package beat

import "time"

// Beat is the least time between two moments at which things happen.
const Beat = time.Second

// near is how much before a whole second a timer may fire by the clock, which is slewed now and then: that second counts
// as over.
const near = 10 * time.Millisecond

// Wait returns a wait of at most every that ends at a second of the clock that is a multiple of every in whole seconds, or
// every itself where that is shorter than a second.
func Wait(every time.Duration) time.Duration { return until(time.Now(), every) }

func until(now time.Time, every time.Duration) time.Duration {
	if every < Beat {
		return every
	}
	whole := every.Truncate(Beat)
	wait := now.Add(every).Truncate(whole).Sub(now)
	if wait < near {
		wait += whole
	}
	return wait
}

// Ticker ticks like a time.Ticker, but when Wait ends.
type Ticker struct {
	C     <-chan time.Time
	timer *time.Timer
	every time.Duration
}

// NewTicker returns a ticker that ticks after every, or less, by Wait. Next has to be called after each tick.
func NewTicker(every time.Duration) *Ticker {
	t := time.NewTimer(Wait(every))
	return &Ticker{C: t.C, timer: t, every: every}
}

// Next has the ticker tick again.
func (t *Ticker) Next() { t.timer.Reset(Wait(t.every)) }

// Stop ends it.
func (t *Ticker) Stop() { t.timer.Stop() }
