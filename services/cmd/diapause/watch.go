package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"

	"github.com/diapause/diapause/schemas"
)

// watchEvery is how often a table on a terminal is drawn again without news: what a
// session uses and how long it is idle change without any.
const watchEvery = time.Second

// follow shows the sessions as they change, until it is interrupted.
func (f lsFlags) follow(ctx context.Context, c *client) error {
	api, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer api.Close()
	news := make(chan struct{}, 1)
	_, err = api.Conn().Subscribe(schemas.SubjectSession+".>", func(*nats.Msg) {
		select {
		case news <- struct{}{}:
		default: // the next look sees what this one would
		}
	})
	if err != nil {
		return fmt.Errorf("follow the sessions: %w", err)
	}
	show := f.changes(map[string]schemas.View{})
	if term.IsTerminal(int(os.Stdout.Fd())) && !f.asJSON && !f.quiet {
		show = f.redraw
	}
	for {
		all, err := f.list(ctx, c, api)
		if ctx.Err() != nil {
			return exitStatus(exitInterrupted) // that is how a look at it ends
		}
		if err != nil {
			return err
		}
		if err := show(all); err != nil {
			return err
		}
		select {
		case <-news:
		case <-time.After(watchEvery):
		case <-ctx.Done():
		}
	}
}

// redraw draws the table over the one of before.
func (f lsFlags) redraw(all []schemas.View) error {
	var out bytes.Buffer
	out.WriteString("\033[H\033[2J")
	writeSessions(&out, all)
	_, err := os.Stdout.Write(out.Bytes())
	return err
}

// changes prints each session that is otherwise than the last time, and those that are
// listed no longer as deleted.
func (f lsFlags) changes(last map[string]schemas.View) func([]schemas.View) error {
	return func(all []schemas.View) error {
		listed := map[string]bool{}
		for _, v := range all {
			listed[v.Name] = true
			if was, known := last[v.Name]; known && was.Version == v.Version && was.Status == v.Status && was.PID == v.PID {
				continue
			}
			last[v.Name] = v
			if err := f.printChange(v); err != nil {
				return err
			}
		}
		for name, v := range last {
			if listed[name] {
				continue
			}
			delete(last, name)
			if len(f.states) > 0 {
				continue // it may be in another state
			}
			v.State = schemas.Deleted
			if err := f.printChange(v); err != nil {
				return err
			}
		}
		return nil
	}
}

func (f lsFlags) printChange(v schemas.View) error {
	switch {
	case f.asJSON:
		return printLine(v)
	case f.quiet:
		fmt.Println(v.Name)
	default:
		fmt.Printf("%s  %s  %s\n", time.Now().Format(time.RFC3339), v.Name, stateOf(v))
	}
	return nil
}
