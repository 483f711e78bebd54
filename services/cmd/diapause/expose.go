package main

import (
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const exposeHelp = `Say who may reach a port of a session through the gateway ("up --http", "gateway"):

  --private   browsers that are logged in, and bearers of tokens of its tenant that may use it
  --token     bearers of such tokens alone
  --public    everybody who reaches the gateway, without any login

A port is private if nothing else is said. What is exposed stays so while the session is suspended, moved and
resumed; a fork begins with private ports, and so does a session that is made under the name later. Without PORT
the ports are listed that aren't private. Ports of a session that may share its host's network, as every container
may, are exposed by operators alone.

"diapause ingress" and "diapause forward" don't go by this: they are for those who may use the machine.`

func exposeCommand(c *client) *cobra.Command {
	var private, token, public, asJSON bool
	var reason string
	cmd := &cobra.Command{
		Use: "expose NAME [PORT --private|--token|--public]", Short: "Say who may reach a port of a session", Long: exposeHelp, Args: cobra.RangeArgs(1, 2),
		Example: "  diapause expose web 3000 --public\n  diapause expose web",
		RunE: func(cmd *cobra.Command, args []string) error {
			var v schemas.View
			verb, req := "show", schemas.Request{Name: args[0]}
			want := chosenAccess(map[schemas.Access]bool{schemas.AccessPrivate: private, schemas.AccessToken: token, schemas.AccessPublic: public})
			switch {
			case len(args) == 2 && len(want) == 1:
				port, err := strconv.ParseUint(args[1], 10, 16)
				if err != nil || port == 0 {
					return usagef("expose %q: want a port from 1 to 65535", args[1])
				}
				verb, req.Reason, req.Expose = "expose", reason, &schemas.ExposeRequest{Port: uint16(port), Access: want[0]}
			case len(args) == 2:
				return usagef("expose: want one of --private, --token and --public")
			case len(want) > 0:
				return usagef("expose: a port is missing").WithHint("usage: diapause expose NAME PORT --%s", want[0])
			}
			if err := c.call(cmd.Context(), verb, req, &v); err != nil {
				return err
			}
			return printExposed(v, req.Expose, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&private, "private", false, "those who are logged in, and bearers of tokens")
	fl.BoolVar(&token, "token", false, "bearers of tokens alone")
	fl.BoolVar(&public, "public", false, "everybody")
	fl.StringVar(&reason, "reason", "", "kept in the session's history")
	fl.BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

// chosenAccess gives what was chosen.
func chosenAccess(chosen map[schemas.Access]bool) (all []schemas.Access) {
	for _, a := range schemas.Accesses() {
		if chosen[a] {
			all = append(all, a)
		}
	}
	return all
}

// printExposed prints what was changed, or all ports that aren't private.
func printExposed(v schemas.View, changed *schemas.ExposeRequest, asJSON bool) error {
	if asJSON {
		return printJSON(v)
	}
	shown := slices.Clone(v.Exposed)
	if changed != nil {
		fmt.Fprintf(printed, "port %d of session %s: %s\n", changed.Port, v.Name, accessOf(schemas.AccessOf(v.Exposed, changed.Port)))
		return nil
	}
	table("PORT\tACCESS", func(w *tabwriter.Writer) {
		for _, e := range shown {
			fmt.Fprintf(w, "%d\t%s\n", e.Port, accessOf(e.Access))
		}
	})
	return nil
}

// accessOf says for a person who may reach a port.
func accessOf(a schemas.Access) string {
	switch a {
	case schemas.AccessPublic:
		return "public: everybody"
	case schemas.AccessToken:
		return "token: bearers of tokens alone"
	}
	return "private: logins and bearers of tokens"
}
