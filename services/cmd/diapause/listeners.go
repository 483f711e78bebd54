package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const ingressAddHelp = `Have a part of Diapause take TCP connections at an address of its machine, and lead them to a port of a session, which
is resumed for them. That outlives restarts, and ends with "ingress rm". A session that is made under the name later isn't reached.

The part is "diapause up" (with --http), or the gateway that --part names ("gateway --name"). Who reaches the address reaches that
one port, without a token: only operators add a listener. A port that is taken is said here and by "ingress ls", and tried again.`

func ingressAddCommand(c *client) *cobra.Command {
	var listen, part string
	var proxied []string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "add --listen ADDRESS:PORT NAME PORT", Short: "Have up or a gateway listen for a port of a session", Long: ingressAddHelp, Args: cobra.ExactArgs(2),
		Example: "  diapause ingress add --listen :2222 work 22\n  diapause ingress ls\n  diapause ingress rm :2222",
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := strconv.ParseUint(args[1], 10, 16)
			if err != nil || port == 0 {
				return usagef("ingress add %q: want a port from 1 to 65535", args[1])
			}
			r := schemas.ListenRequest{Part: part, Address: listen, Port: uint16(port)}
			for _, word := range proxied {
				r.Proxy = append(r.Proxy, schemas.ProxyProtocol(word))
			}
			if err := r.Validate(); err != nil {
				return usage(err)
			}
			var v schemas.ListenerView
			if err := c.call(cmd.Context(), "ingress_add", schemas.Request{Name: args[0], Listen: &r}, &v); err != nil {
				return err
			}
			if asJSON {
				return printJSON(v)
			}
			fmt.Fprintf(printed, "%s at %s for port %d of session %s: %s\n", v.Part, v.Address, v.Port, v.Name, stateOfListener(v))
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&listen, "listen", "", "`ADDRESS:PORT` to listen at, or :PORT for every address of the machine (required)")
	partFlag(cmd, &part)
	fl.StringSliceVar(&proxied, "proxy-protocol", nil, "accept: each connection begins with a PROXY header of a load balancer; send: the session gets one; or accept,send; accept without a value")
	fl.Lookup("proxy-protocol").NoOptDefVal = string(schemas.ProxyAccept)
	fl.BoolVar(&asJSON, "json", false, "print the listener as JSON")
	return cmd
}

func partFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "part", schemas.DefaultPart, "the `PART` that listens: up, or the --name of a gateway")
}

// stateOfListener says how a listener is.
func stateOfListener(v schemas.ListenerView) string {
	if v.Error == "" {
		return string(v.State)
	}
	return string(v.State) + ": " + v.Error
}

func ingressListCommand(c *client) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List listeners, and whether they listen", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []schemas.ListenerView{}
			if err := c.call(cmd.Context(), "ingress_ls", schemas.Request{}, &all); err != nil {
				return err
			}
			if asJSON {
				return printJSON(all)
			}
			table("PART\tADDRESS\tSESSION\tPORT\tPROXY\tSTATE", func(w *tabwriter.Writer) {
				for _, v := range all {
					var words []string
					for _, p := range v.Proxy {
						words = append(words, string(p))
					}
					if words == nil {
						words = []string{"-"}
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", v.Part, v.Address, v.Name, v.Port, strings.Join(words, ","), stateOfListener(v))
				}
			})
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func ingressRemoveCommand(c *client) *cobra.Command {
	var part string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "rm ADDRESS:PORT", Short: "Remove a listener; its connections end", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := schemas.ListenRequest{Part: part, Address: args[0]}
			if err := r.Check(); err != nil {
				return usage(err)
			}
			var l schemas.Listener
			if err := c.call(cmd.Context(), "ingress_rm", schemas.Request{Listen: &r}, &l); err != nil {
				return err
			}
			if asJSON {
				return printJSON(l)
			}
			fmt.Fprintf(printed, "%s doesn't listen at %s any more for port %d of session %s\n", l.Part, l.Address, l.Port, l.Name)
			return nil
		},
	}
	partFlag(cmd, &part)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
