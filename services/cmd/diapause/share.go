package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway"
)

const shareHelp = `Print a link with which others watch the terminal of a session through the gateway, from now on, and can't type.

Everyone who has the link can: it has a token, of which a digest is stored. It gives nothing else: no name, list, log or
other session, nothing from before but what the screen shows now, and it neither resumes the session nor counts as use.
A browser shows it, and so does "diapause attach --shared", which asks for the link. The share ends with its time, with
"diapause unshare", and with the session. "diapause show" lists the shares of a session, and how many watch.`

func shareCommand(c *client) *cobra.Command {
	var length time.Duration
	var at, reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "share NAME", Short: "Let others watch a session's terminal for a while", Long: shareHelp, Args: cobra.ExactArgs(1),
		Example: "  diapause share work --for 1h\n  diapause unshare work",
		RunE: func(cmd *cobra.Command, args []string) error {
			r := schemas.ShareRequest{For: schemas.Duration(length)}
			if err := r.Validate(); err != nil {
				return usage(err)
			}
			base, err := c.shareAt(at)
			if err != nil {
				return err
			}
			var v schemas.ShareMade
			if err := c.call(cmd.Context(), "share", schemas.Request{Name: args[0], Reason: reason, Share: &r}, &v); err != nil {
				return err
			}
			l := sharedLink{Link: gateway.ShareLink(base, v.Token), Share: v.Share}
			if asJSON {
				return printJSON(l)
			}
			fmt.Fprintln(printed, l.Link)
			fmt.Fprintf(complained, "share %s of session %s until %s; a browser shows it, and `diapause attach --shared`, which asks for the link\n", v.ID, args[0], v.Until.Format(time.RFC3339))
			return nil
		},
	}
	fl := cmd.Flags()
	durationVar(fl, &length, "for", time.Hour, "how long others may watch, e.g. 1h or 7d")
	fl.StringVar(&reason, "reason", "", "kept in the session's history")
	atFlag(cmd, &at)
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// sharedLink is what is printed of a share.
type sharedLink struct {
	Link string `json:"link"`
	schemas.Share
}

// shareAt is where those who watch reach the gateway: that of the local `diapause up`, unless --at names one.
func (c *client) shareAt(at string) (string, error) {
	if at != "" {
		return c.gatewayAt(at)
	}
	if web, ok := c.web(); ok {
		return web, nil
	}
	return "", schemas.WithHint(errors.New("a terminal is shared through a gateway, and none is known here"),
		"start one with `diapause up --http ADDRESS` or `diapause gateway`, and name it with --at URL if it is elsewhere")
}

const unshareHelp = `End a share of a session's terminal: the one of that ID, the only one that there is, or all. Those who watch by it are
cut off within seconds.`

func unshareCommand(c *client) *cobra.Command {
	var all, asJSON bool
	var reason string
	cmd := &cobra.Command{
		Use: "unshare NAME [ID]", Short: "End shares of a session's terminal", Long: unshareHelp, Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := schemas.ShareRequest{All: all}
			if len(args) > 1 {
				r.ID = args[1]
			}
			switch {
			case strings.Contains(r.ID, schemas.TokenPrefix): // not to be sent, or logged
				return usage(schemas.WithHint(fmt.Errorf("that is a share's token, not its id"), "`diapause show %s` lists the ids", args[0]))
			case all && r.ID != "":
				return usagef("unshare: leave --all or the ID out")
			}
			var v schemas.View
			if err := c.call(cmd.Context(), "unshare", schemas.Request{Name: args[0], Reason: reason, Share: &r}, &v); err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(v, func() { printShares(v) })
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&all, "all", "a", false, "end all shares of the session")
	fl.StringVar(&reason, "reason", "", "kept in the session's history")
	fl.BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

// printShares prints the shares that a session still has.
func printShares(v schemas.View) {
	if len(v.Shares) == 0 {
		fmt.Fprintf(printed, "session %s isn't shared any more\n", v.Name)
		return
	}
	table("SHARE\tUNTIL\tWATCHING\tBY", func(w *tabwriter.Writer) {
		for _, s := range v.Shares {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", s.ID, s.Until.Format(time.RFC3339), s.Watching, s.By)
		}
	})
}

// sharedBy reads the link of a share: the gateway, and the token.
func sharedBy(link string) (base, token string, err error) {
	u, err := url.Parse(strings.TrimSpace(link))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !gateway.IsShare(u.Path) || !strings.HasPrefix(u.Fragment, schemas.TokenPrefix) {
		return "", "", usage(schemas.WithHint(fmt.Errorf("that isn't the link of a share"), "`diapause share` prints one, as %s", gateway.ShareLink("https://HOST", "TOKEN")))
	}
	return u.Scheme + "://" + u.Host, u.Fragment, nil
}
