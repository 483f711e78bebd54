package beat

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	whole := time.Date(2026, 11, 28, 19, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after, every, want time.Duration
	}{
		{0, time.Second, time.Second},
		{0, 2 * time.Second, 2 * time.Second},
		{time.Second, 2 * time.Second, time.Second},
		{100 * time.Microsecond, 2 * time.Second, 2*time.Second - 100*time.Microsecond},
		{300 * time.Millisecond, 5 * time.Second, 4700 * time.Millisecond},
		{0, 2500 * time.Millisecond, 2 * time.Second},
		{900 * time.Millisecond, time.Second, 100 * time.Millisecond},
		{-100 * time.Microsecond, time.Second, time.Second + 100*time.Microsecond},
		{300 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond},
		{300 * time.Millisecond, 0, 0},
	} {
		if got := until(whole.Add(c.after), c.every); got != c.want {
			t.Errorf("%v after a whole second, until(%v) = %v, want %v", c.after, c.every, got, c.want)
		}
	}
}

// Tickers that begin at different times, and wait for different times, tick together.
func TestTickTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(250 * time.Millisecond)
		one := NewTicker(time.Second)
		defer one.Stop()
		time.Sleep(500 * time.Millisecond)
		two := NewTicker(2 * time.Second)
		defer two.Stop()
		for range 5 {
			for _, tick := range []*Ticker{one, two} {
				if at := <-tick.C; time.Now().Nanosecond() != 0 {
					t.Errorf("it ticked at %v", at)
				}
				tick.Next()
			}
		}
	})
}
