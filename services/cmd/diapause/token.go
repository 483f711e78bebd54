package main

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const tokenHelp = `Make, list and end the tokens that requests over HTTP have, as
"Authorization: Bearer dpt_…".

What is stored of a token is a digest. A token is for one tenant, or one session of it, and
has a role: publisher reports what is in use, reader looks, client also suspends, resumes and
checkpoints, owner does all that is about sessions and stays within them. The role operator
is for everything of every tenant: hosts, keys, the store, tokens, and sessions that reach
their host (its network, its files, more capabilities).`

func tokenCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Say who may ask over HTTP", Long: tokenHelp}
	cmd.AddCommand(tokenCreateCommand(c), tokenListCommand(c), tokenRevokeCommand(c))
	return cmd
}

const tokenCreateHelp = `Make a token and print it on standard output. It can't be shown again.

To run a process tree takes the role operator unless its root is the image of a registry
(oci:alpine:3), since it sees its host's files else; so do containers, whose engine all
share.`

func tokenCreateCommand(c *client) *cobra.Command {
	var role, tenant, session string
	var length time.Duration
	var link, asJSON bool
	var at string
	cmd := &cobra.Command{
		Use: "create --role ROLE", Short: "Make a token", Long: tokenCreateHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := schemas.TokenRequest{Role: schemas.TokenRole(role), Session: schemas.SessionID(session), For: schemas.Duration(length), Link: link}
			v, err := makeToken(cmd.Context(), c, r, schemas.Tenant(tenant))
			if err != nil {
				return err
			}
			if link {
				return printLink(c, v, at, asJSON)
			}
			if asJSON {
				return printJSON(v)
			}
			fmt.Fprintln(printed, v.Token)
			fmt.Fprintf(complained, "token %s: %s of %s until %s; it can't be shown again\n", v.ID, v.Role, ofToken(v), v.Expires.Format(time.RFC3339))
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&role, "role", "", "publisher, reader, client, owner or operator (required)")
	fl.StringVar(&tenant, "tenant", "", "the tenant that it is for (default \"default\"; an operator's is for every one)")
	fl.StringVar(&session, "session", "", "the `ID` of the one session of the tenant that it is for (default: all of them)")
	durationVar(fl, &length, "for", 24*time.Hour, "how long it is valid, e.g. 24h or 90d")
	fl.BoolVar(&link, "link", false, "print a link in its place, which logs one browser in with the role for that time")
	atFlag(cmd, &at)
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// makeToken has a token made, of the default tenant if none is named and it takes one.
func makeToken(ctx context.Context, c *client, r schemas.TokenRequest, t schemas.Tenant) (v schemas.TokenView, err error) {
	if r.Role != schemas.TokenOperator && t == "" {
		t = schemas.DefaultTenant
	}
	if err := r.Validate(t); err != nil {
		return v, usage(err)
	}
	return v, c.call(ctx, "token_create", schemas.Request{Tenant: t, Token: &r}, &v)
}

// ofToken says what a token is for.
func ofToken(v schemas.TokenView) string {
	switch {
	case v.Port != 0:
		return fmt.Sprintf("port %d of session %s", v.Port, schemas.Name{Tenant: v.Tenant, Session: v.Session})
	case v.Tenant == "":
		return "every tenant"
	case v.Session != "":
		return "session " + schemas.Name{Tenant: v.Tenant, Session: v.Session}.String()
	}
	return "tenant " + string(v.Tenant)
}

func tokenListCommand(c *client) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List tokens that are valid", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var found []schemas.TokenView
			if err := c.call(cmd.Context(), "token_ls", schemas.Request{}, &found); err != nil {
				return err
			}
			shown := []schemas.TokenView{}
			for _, v := range found {
				if all || v.Revoked.IsZero() && time.Now().Before(v.Expires) {
					shown = append(shown, v)
				}
			}
			if asJSON {
				return printJSON(shown)
			}
			table("ID\tROLE\tFOR\tUNTIL\tLAST USE\tMADE BY", func(w *tabwriter.Writer) {
				for _, v := range shown {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", v.ID, roleOf(v), ofToken(v), untilOf(v), cmp.Or(lastUse(v), "-"), v.By)
				}
			})
			return nil
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that have expired or were revoked, for 30 days")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// roleOf says what a token is.
func roleOf(v schemas.TokenView) string {
	if v.As == "" {
		return string(v.Role)
	}
	return string(v.Role) + " as " + string(v.As)
}

func untilOf(v schemas.TokenView) string {
	switch {
	case !v.Revoked.IsZero():
		return "revoked " + v.Revoked.Format(time.RFC3339)
	case time.Now().After(v.Expires):
		return "expired " + v.Expires.Format(time.RFC3339)
	}
	return v.Expires.Format(time.RFC3339)
}

func lastUse(v schemas.TokenView) string {
	if v.Used.IsZero() {
		return ""
	}
	return ago(v.Used) + " ago"
}

func tokenRevokeCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "revoke ID", Short: "End a token; requests with it are refused from then on", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v schemas.TokenView
			if err := c.call(cmd.Context(), "token_revoke", schemas.Request{Token: &schemas.TokenRequest{ID: args[0]}}, &v); err != nil {
				return err
			}
			if asJSON {
				return printJSON(v)
			}
			fmt.Fprintf(printed, "token %s, %s of %s: %s\n", v.ID, v.Role, ofToken(v), untilOf(v))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
