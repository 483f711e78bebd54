package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/search"
	"github.com/spf13/cobra"
)

// fewFound is how many lines are listed unless more are asked for, and mostFound at most.
const (
	fewFound  = 20
	mostFound = 1000
)

// searchFlags are the flags of search.
type searchFlags struct {
	attach.Search
	session, tenant, since, until string
	labels                        []string
	asJSON                        bool
}

const searchHelp = `Print the lines of what terminals showed, and the commands that were typed in them, that have
all of the WORDS, the last one first: of all sessions that are recorded (run --tty), while
they run, sleep, have ended or are in the archive. It resumes nothing, and counts as no use.

Words are whole ones, in either case. Several in quotes are looked for in a row. With --regexp there
is one regular expression (RE2), which needs a --session or a --since: no index helps.

Lines are as they read on a terminal, without escape sequences; what programs show on the whole
screen, as editors do, isn't searched. Who searches needs the right to connect to sessions.`

func searchCommand(c *client) *cobra.Command {
	var f searchFlags
	cmd := &cobra.Command{
		Use: "search WORDS...", Short: "Find lines in what terminals showed, and in commands", Long: searchHelp,
		Example: "  diapause search connection refused\n  diapause search --since 2h --in commands --exit nonzero make\n  diapause search --session work --regexp 'took [0-9]+ms'",
		Args: func(_ *cobra.Command, args []string) error {
			if f.Rebuild != (len(args) == 0) {
				return usagef("search: want words, or --rebuild alone")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Words = args
			if err := f.check(time.Now()); err != nil {
				return err
			}
			return c.search(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.session, "session", "", "of this session `NAME` alone")
	fl.StringVar(&f.tenant, "tenant", "", "of the sessions of this tenant alone")
	fl.StringArrayVar(&f.labels, "label", nil, "of the sessions with this label alone: K=V, or `K` with any value; several times for all of them")
	fl.StringVar(&f.since, "since", "", "not before a `MOMENT`: so long ago, e.g. 2h, or a time, e.g. '2026-05-04 15:30'")
	fl.StringVar(&f.until, "until", "", "before a `MOMENT`")
	fl.StringVar(&f.Exit, "exit", "", "of commands that ended with this `STATUS`, or with any but 0: nonzero")
	fl.StringVar(&f.In, "in", "", "in commands or in output alone")
	fl.BoolVar(&f.Regexp, "regexp", false, "the word is a regular expression")
	fl.IntVarP(&f.Context, "context", "C", 1, "so many `LINES` before and after each")
	fl.IntVarP(&f.Limit, "limit", "n", fewFound, "the last `LINES` alone")
	fl.BoolVar(&f.Rebuild, "rebuild", false, "make the indexes again from the recordings; with no words")
	fl.BoolVar(&f.asJSON, "json", false, jsonHelp)
	return cmd
}

// check reads what is asked for.
func (f *searchFlags) check(now time.Time) (err error) {
	if _, err := strconv.Atoi(f.Exit); err != nil && f.Exit != "" && f.Exit != attach.Nonzero {
		return usagef("--exit %q: want a status, or %s", f.Exit, attach.Nonzero)
	}
	switch {
	case f.In != "" && f.In != attach.InCommands && f.In != attach.InOutput:
		return usagef("--in %q: want %s or %s", f.In, attach.InCommands, attach.InOutput)
	case f.tenant != "" && !schemas.ValidToken(f.tenant):
		return usagef("--tenant %q: want 1 to 64 letters, digits, - or _", f.tenant)
	case f.Limit < 1 || f.Limit > mostFound:
		return usagef("--limit %d: want 1 to %d lines", f.Limit, mostFound)
	case f.Context < 0 || f.Context > 20:
		return usagef("--context %d: want at most 20 lines", f.Context)
	case f.Regexp && len(f.Words) != 1:
		return usagef("search: want one regular expression, in quotes")
	case f.Regexp && f.session == "" && f.since == "":
		return usagef("search: --regexp is for one session, or a time range").WithHint("give --session NAME, or --since e.g. 2h")
	}
	if f.session != "" {
		if _, err := schemas.ParseName(f.session); err != nil {
			return usage(err)
		}
	}
	if f.Since, err = momentOf("--since", f.since, now); err != nil {
		return err
	}
	if f.Until, err = momentOf("--until", f.until, now); err != nil {
		return err
	}
	if !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return usagef("--until: it isn't after --since")
	}
	return nil
}

// momentOf reads a time, or how long ago it was; zero of none.
func momentOf(flag, text string, now time.Time) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if ago, err := schemas.ParseDuration(text); err == nil {
		if ago < 0 {
			return at, usagef("%s %s: want how long ago, e.g. 2h", flag, text)
		}
		return now.Add(-ago), nil
	}
	at, err = time.Parse(time.RFC3339, text)
	for _, form := range fromForms {
		if err != nil {
			at, err = time.ParseInLocation(form, text, time.Local)
		}
	}
	if err != nil {
		return at, usagef("%s %q: want e.g. 2h, or '2026-05-04 15:30'", flag, text)
	}
	return at, nil
}

// search asks the hosts of the sessions that are to be searched, and prints what they found.
func (c *client) search(ctx context.Context, f searchFlags) error {
	api, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer api.Close()
	views, err := f.sessions(ctx, c, api)
	if err != nil {
		return err
	}
	f.Scope = f.scope()
	got, err := search.Asking{Search: f.Search, Dial: searchDial{api}.dial, Notes: complained, Keep: f.Limit}.Ask(ctx, search.ByHost(views))
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	for _, failed := range got.Failed {
		fmt.Fprintf(complained, "%s of host %s couldn't be searched: %v\n", count(failed.Sessions, "session"), failed.Host, failed.Err)
	}
	if f.Rebuild {
		fmt.Fprintln(printed, "the indexes of "+count(got.Searched, "session")+" are made again")
		return nil
	}
	return answers{asJSON: f.asJSON}.print(got.Found, func() {
		for i, found := range got.Found {
			if i > 0 && f.Context > 0 {
				fmt.Fprintln(printed)
			}
			printFound(found)
		}
		if len(got.Found) == 0 {
			fmt.Fprintln(complained, "nothing was found in "+count(got.Searched, "session"))
		}
	})
}

// scope is what hosts hold the search to: what is asked for. All sessions that the API lists may be searched if that says nothing.
func (f searchFlags) scope() *attach.Scope {
	n, err := schemas.ParseName(f.session)
	switch {
	case f.session != "" && err == nil:
		return &attach.Scope{Tenant: n.Tenant, Session: n.Session}
	case f.tenant != "":
		return &attach.Scope{Tenant: schemas.Tenant(f.tenant)}
	}
	return nil
}

// sessions gives those that are to be searched.
func (f searchFlags) sessions(ctx context.Context, c *client, api *events.API) (views []schemas.View, err error) {
	if f.session != "" {
		var v schemas.View
		err := c.callOn(ctx, api, "show", schemas.Request{Name: f.session}, &v)
		views = []schemas.View{v}
		if err != nil {
			return nil, err
		}
	} else if views, err = (lsFlags{tenant: f.tenant, all: true}).list(ctx, c, api); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(views, func(v schemas.View) bool {
		return f.tenant != "" && v.Tenant != schemas.Tenant(f.tenant) || !schemas.Labelled(v.Labels, f.labels)
	}), nil
}

// searchDial connects to hosts.
type searchDial struct{ api *events.API }

// lookDenied is how often it is looked whether the server doesn't let this client connect to hosts: it says so in no answer.
const lookDenied = 50 * time.Millisecond

func (d searchDial) dial(ctx context.Context, host schemas.HostID, hello []byte) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		tick := time.NewTicker(lookDenied)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, denied := natsconn.DeniedSubject(d.api.Conn().LastError()); denied {
				cancel(events.ErrDenied)
			}
		}
	}()
	conn, err := tunnel.Dial(ctx, d.api.Conn(), schemas.SubjectHost+"."+string(host)+".dial", hello)
	switch {
	case errors.Is(context.Cause(ctx), events.ErrDenied):
		return nil, events.ErrDenied
	case errors.Is(err, tunnel.ErrNoListener):
		return nil, search.ErrAway
	case err != nil:
		return nil, err
	}
	return conn, nil
}

// printFound prints a line that was found: where and when it was, and what it is.
func printFound(f attach.Found) {
	head := []string{f.Session, f.Time.Local().Format(time.DateTime)}
	if f.Command > 0 {
		head = append(head, fmt.Sprintf("command %d", f.Command))
	}
	if f.Exit != nil {
		head = append(head, fmt.Sprintf("exit %d", *f.Exit))
	}
	if f.In == attach.InOutput && f.Text != "" {
		head = append(head, inRow(f.Text))
	}
	fmt.Fprintln(printed, strings.Join(head, "  "))
	for _, l := range f.Before {
		fmt.Fprintln(printed, "    "+l)
	}
	mark := ">   "
	if f.In == attach.InCommands {
		mark = "$   "
	}
	fmt.Fprintln(printed, mark+inRow(f.Line))
	for _, l := range f.After {
		fmt.Fprintln(printed, "    "+l)
	}
}
