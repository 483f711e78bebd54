package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/services/gateway"
)

const loginLinkHelp = `Print a link that logs one browser in to the gateway of "diapause up", or to another one (--at).

The link is good for one login within ten minutes. The login lasts as long as --for says; "diapause token ls" lists
it, "diapause token revoke ID" ends it, and the page /login of the gateway does, too. Without --role it may do all
that this command line may.`

func loginLinkCommand(c *client) *cobra.Command {
	var role, tenant, session, at string
	var length time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use: "login-link", Short: "Print a link that logs a browser in", Long: loginLinkHelp, Args: cobra.NoArgs,
		Example: "  diapause login-link\n  diapause login-link --role client --session web --for 8h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := schemas.TokenRequest{Role: schemas.TokenRole(role), Session: schemas.SessionID(session), For: schemas.Duration(length), Link: true}
			v, err := makeToken(cmd.Context(), c, r, schemas.Tenant(tenant))
			if err != nil {
				return err
			}
			return printLink(c, v, at, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&role, "role", string(schemas.TokenOperator), "publisher, reader, client, owner or operator")
	fl.StringVar(&tenant, "tenant", "", "the tenant that it is for (default \"default\"; an operator's is for every one)")
	fl.StringVar(&session, "session", "", "the `ID` of the one session of the tenant that it is for (default: all of them)")
	durationVar(fl, &length, "for", 12*time.Hour, "how long the login is valid, e.g. 8h or 7d")
	atFlag(cmd, &at)
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// atFlag names the gateway that a link leads to.
func atFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "at", "", "the `URL` of the gateway that a link leads to, e.g. https://gate.example.com (default: that of `diapause up` on this machine)")
}

// link is what is printed of a link.
type link struct {
	Link string `json:"link"`
	schemas.TokenView
}

func printLink(c *client, v schemas.TokenView, at string, asJSON bool) error {
	base, err := c.gatewayAt(at)
	if err != nil {
		return err
	}
	l := link{Link: gateway.LoginLink(base, v.Token), TokenView: v}
	l.Token = ""
	if asJSON {
		return printJSON(l)
	}
	fmt.Fprintln(printed, l.Link)
	fmt.Fprintf(complained, "good for one login as %s of %s, until %s\n", v.As, ofToken(v), v.Expires.Format(time.RFC3339))
	return nil
}

// gatewayAt reads --at. Without it the gateway is that of the local `diapause up`, which says where it is, unless it didn't
// get its address or is of an older version.
func (c *client) gatewayAt(at string) (string, error) {
	if web, ok := c.web(); ok && at == "" {
		return web, nil
	}
	if at == "" {
		_, port, err := net.SplitHostPort(cmp.Or(os.Getenv("DIAPAUSE_HTTP"), gateway.Address))
		if err != nil {
			return "", usagef("there is no gateway at DIAPAUSE_HTTP").WithHint("name one with --at")
		}
		return "http://" + net.JoinHostPort("localhost", port), nil
	}
	u, err := url.Parse(strings.TrimSuffix(at, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != u.String() {
		return "", usagef("--at %q: want a URL such as https://gate.example.com", at)
	}
	return u.String(), nil
}

// web is the gateway of the local `diapause up`; false if it has none, or the server that is asked is another.
func (c *client) web() (string, bool) {
	up, err := datadir.Locate(c.data)
	return up.Web, err == nil && up.Web != "" && (c.url == "" || c.url == up.URL || c.url == up.PublicURL)
}
