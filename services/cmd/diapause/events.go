package main

import (
	"cmp"
	"context"
	"io"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/services/export"
)

// eachEvent calls fn with the events of a recording, in their order. fn's error ends it. notes gets what is said of them.
func (c *client) eachEvent(ctx context.Context, name string, shown attach.History, notes io.Writer, fn func(attach.Event) error) error {
	shown.Events = true
	events, to := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := export.Each(events, fn)
		events.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // else what comes would wait for ever
		done <- err
	}()
	err := c.output(ctx, name, false, &shown, to, notes)
	to.CloseWithError(cmp.Or(err, io.EOF))
	if fnErr := <-done; fnErr != nil {
		return fnErr
	}
	return err
}

// gathered gathers what is written in whole characters, and writes it so.
type gathered struct {
	to io.Writer
	b  []byte
}

const gatheredMost = 64 << 10

func (g *gathered) Write(p []byte) (int, error) {
	g.b = append(g.b, p...)
	if len(g.b) < gatheredMost {
		return len(p), nil
	}
	return len(p), g.flush()
}

func (g *gathered) flush() error {
	_, err := g.to.Write(g.b)
	g.b = g.b[:0]
	return err
}
