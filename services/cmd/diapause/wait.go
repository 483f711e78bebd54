package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

const waitHelp = `Wait until each session that is named has ended by itself or failed, or is in the --state
that is asked for, and print how it is then. Waiting is looking: it keeps nothing awake.

Without --timeout it waits for as long as that takes, restarts of Diapause included; exit
code 5 says that the time was too short, 3 that the session was removed meanwhile.`

func waitCommand(c *client) *cobra.Command {
	var wanted []string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "wait NAME...", Short: "Wait until a session has ended, or is in a state", Long: waitHelp, Args: cobra.MinimumNArgs(1),
		Example: "  diapause wait build && diapause logs build\n  diapause wait --state suspended --timeout 5m work",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkStates(wanted); err != nil {
				return err
			}
			limit := c.timeout
			return forEach(cmd.Context(), args, asJSON, func(name string, a answers) error {
				v, err := c.until(cmd.Context(), name, wanted, limit)
				if err != nil {
					return err
				}
				return a.outcome(v)
			})
		},
	}
	cmd.Flags().StringSliceVar(&wanted, "state", []string{string(schemas.Exited), string(schemas.Failed)}, "which to wait for; several with commas")
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// lookAgain is how soon a session is looked at again without news of it: those may be lost.
// backAgain is how soon it is looked whether a server that went away is back.
const (
	lookAgain = 5 * time.Second
	backAgain = 500 * time.Millisecond
)

// watch waits for a session to be in one of some states.
type watch struct {
	*client
	name   schemas.Name
	wanted []string
	seen   func() // is called when the session was
	v      schemas.View
}

// until waits for a session to be in one of the states. Once it was seen, a server that goes
// away is waited for, too, wherever it comes back.
func (c *client) until(ctx context.Context, name string, wanted []string, limit time.Duration) (schemas.View, error) {
	return c.untilTold(ctx, name, wanted, limit, func(schemas.View) {})
}

// untilTold is until, and tells how the session is each time that it is looked at.
func (c *client) untilTold(ctx context.Context, name string, wanted []string, limit time.Duration, tell func(schemas.View)) (schemas.View, error) {
	n, err := schemas.ParseName(name)
	if err != nil {
		return schemas.View{}, usage(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w, known, said := watch{client: c, name: n, wanted: wanted}, false, false
	c.timeout = 0 // that of each look is another
	w.seen = func() {
		if !known && limit > 0 { // however long that took, there is something to tell now
			time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
		}
		known = true
		tell(w.v)
	}
	for {
		away, err := w.follow(ctx)
		switch {
		case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
			return w.v, &schemas.APIError{Code: schemas.CodeTimeout, Session: n.String(), Text: fmt.Sprintf("session %s is %s and not %s after %s", name, w.v.State, strings.Join(wanted, " or "), limit)}
		case ctx.Err() != nil:
			return w.v, errInterrupted
		case err == nil || !away || !known:
			return w.v, err
		}
		if !said {
			fmt.Fprintln(complained, "diapause: waiting for Diapause to come back: "+err.Error())
			said = true
		}
		w.idle(ctx, nil, backAgain)
	}
}

// follow looks until the session is in one of the states, or the server is away.
func (w *watch) follow(ctx context.Context) (away bool, err error) {
	api, err := w.connect(ctx)
	if err != nil {
		return true, err
	}
	defer api.Close()
	news := make(chan *nats.Msg, 1)
	sub, err := api.Conn().Subscribe(schemas.SubjectSession+"."+w.name.Key(), func(m *nats.Msg) {
		select {
		case news <- m:
		default: // the next look sees what this one would
		}
	})
	if err != nil {
		return false, fmt.Errorf("follow session %s: %w", w.name, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection closes next
	for ctx.Err() == nil {
		if err := w.callOn(ctx, api, "show", schemas.Request{Name: w.name.String()}, &w.v); err != nil {
			return errors.Is(err, events.ErrLost) || errors.Is(err, events.ErrNoServer), err
		}
		if w.seen(); slices.Contains(w.wanted, string(w.v.State)) {
			return false, nil
		}
		w.idle(ctx, news, lookAgain)
	}
	return false, nil
}

// idle waits for news, if there is any, for a time.
func (w *watch) idle(ctx context.Context, news <-chan *nats.Msg, d time.Duration) {
	select {
	case <-news:
	case <-time.After(d):
	case <-ctx.Done():
	}
}
