package matrix

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
)

// fault is one thing that goes wrong at a moment.
type fault struct {
	name string
	// at happens where the moment is reached, in the goroutine that came there; nil is a pause
	// until then ends it.
	at func(ctx context.Context, c *trial) error
	// then is what follows, until all processes run again and nothing is held up.
	then func(c *trial) error
	// wakes and removes say what has become of the session besides.
	wakes, removes bool
	fits           func(verb) bool // any if nil
}

var everyPart = []string{partWorker, partScheduler, partAPI}

// partOf gives whose moment it is.
func partOf(n failpoint.Name) string {
	part, _, _ := strings.Cut(string(n), ".")
	if part == "image" {
		return partWorker
	}
	return part
}

func faults() []fault {
	living := func(v verb) bool { return v.end == goesOn }
	return []fault{
		{
			name: "its process is killed",
			at: func(_ context.Context, c *trial) error {
				c.l.die(partOf(c.moment.Name))
				return errGone
			},
			then: func(c *trial) error {
				c.hangUp()
				c.l.bury(partOf(c.moment.Name))
				c.l.beginPart(partOf(c.moment.Name))
				return nil
			},
		},
		{
			name: "all is killed",
			at: func(_ context.Context, c *trial) error {
				c.l.die(everyPart...)
				return errGone
			},
			then: func(c *trial) error {
				c.hangUp()
				c.l.bury(everyPart...)
				c.l.restart()
				c.l.beginAll()
				return nil
			},
		},
		{
			name: "an error",
			at:   func(context.Context, *trial) error { return failpoint.ErrAsked },
			then: func(c *trial) error { return c.answered(limit) },
		},
		{
			name: "a pause in which it is used", wakes: true, fits: living,
			then: func(c *trial) error {
				if err := isUsed(c.l.ctx, c); err != nil {
					return err
				}
				close(c.release)
				return c.answered(limit)
			},
		},
		{
			name: "a pause in which it is deleted", removes: true, fits: living,
			then: func(c *trial) error {
				removed := make(chan error, 1)
				go func() {
					var out any
					removed <- c.l.ask(c.l.ctx, "rm", schemas.Request{Name: c.name}, &out)
				}()
				if _, err := c.until("deleted", func(s schemas.SessionRecord) bool { return s.State == schemas.Deleted }); err != nil {
					return err
				}
				close(c.release)
				if err := <-removed; err != nil {
					return fmt.Errorf("rm: %w", err)
				}
				return c.answered(limit)
			},
		},
		{
			name: "a pause in which the server is restarted",
			then: func(c *trial) error {
				c.l.restart()
				close(c.release)
				// Whether the answer finds its way back is another matter.
				_ = c.answered(time.Second)
				return nil
			},
		},
	}
}
