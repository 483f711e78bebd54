package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// watchEvery is how often a table on a terminal is drawn again: what a session uses and how
// long it is idle change without news.
const watchEvery = time.Second

// follow shows the sessions as they change, until it is interrupted.
func (f lsFlags) follow(ctx context.Context, c *client) error {
	api, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer api.Close()
	if term.IsTerminal(int(os.Stdout.Fd())) && !f.asJSON && !f.quiet {
		err = f.redraw(ctx, c, api)
	} else {
		err = f.changes(ctx, api)
	}
	if ctx.Err() != nil {
		return exitStatus(exitInterrupted) // that is how a look at it ends
	}
	return err
}

// redraw draws the table again and again, each over the one of before.
func (f lsFlags) redraw(ctx context.Context, c *client, api *events.API) error {
	for ctx.Err() == nil {
		all, err := f.list(ctx, c, api)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		writeSessions(&out, all)
		if _, err := os.Stdout.WriteString("\033[H\033[2J" + clean(out.String())); err != nil {
			return fmt.Errorf("draw the table: %w", err)
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// changes prints each session, and again when it changes.
func (f lsFlags) changes(ctx context.Context, api *events.API) (err error) {
	client := events.New(api.Conn(), events.Options{By: who()})
	defer func() { err = errors.Join(err, client.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	err = client.WatchSessions(ctx, cmp.Or(f.tenant, "*")+"/*", func(v schemas.View) {
		if failed != nil || !f.has(v) {
			return
		}
		if failed = f.printChange(v); failed != nil {
			stop()
		}
	})
	return errors.Join(err, failed)
}

func (f lsFlags) printChange(v schemas.View) (err error) {
	switch {
	case f.asJSON:
		return printLine(v)
	case f.quiet:
		_, err = fmt.Fprintln(printed, v.Name)
	default:
		_, err = fmt.Fprintf(printed, "%s  %s  %s\n", time.Now().Format(time.RFC3339), v.Name, stateOf(v))
	}
	return err
}
