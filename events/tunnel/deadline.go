package tunnel

import "time"

// deadline is a point in time after which reads or writes give up. Its fields
// belong to the mutex of its Conn.
type deadline struct {
	timer  *time.Timer
	passed bool
}

// set replaces the deadline; the zero time removes it. The caller holds c.mu.
func (c *Conn) setDeadline(d *deadline, t time.Time) {
	d.stop()
	d.passed = false
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		d.passed = true
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		// A timer that was replaced while it fired says nothing any more.
		if d.timer == timer {
			d.passed = true
			c.changed.Broadcast()
		}
	})
	d.timer = timer
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
