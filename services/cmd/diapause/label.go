package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const labelHelp = `Set labels of a session with K=V, and remove them with K-. Without any, its labels are listed.

A label is a word of yours on a session, such as team=web or run=4711, by which "ls --label" finds it. It has no
influence on what happens to the session. Labels stay while it is suspended, moved and resumed, and a fork begins
with those of its origin. They are no place for secrets: who may see the session sees them.`

func labelCommand(c *client) *cobra.Command {
	var asJSON bool
	var reason string
	cmd := &cobra.Command{
		Use: "label NAME [K=V...] [K-...]", Short: "Set, remove or list labels of a session", Long: labelHelp, Args: cobra.MinimumNArgs(1),
		Example: "  diapause label work team=web owner-\n  diapause ls --label team=web",
		RunE: func(cmd *cobra.Command, args []string) error {
			var v schemas.View
			verb, req := "show", schemas.Request{Name: args[0]}
			if len(args) > 1 {
				want, err := relabelling(args[1:])
				if err != nil {
					return err
				}
				verb, req.Reason, req.Label = "label", reason, &want
			}
			if err := c.call(cmd.Context(), verb, req, &v); err != nil {
				return err
			}
			return answers{asJSON: asJSON}.print(v, func() {
				table("LABEL\tVALUE", func(w *tabwriter.Writer) {
					for _, k := range slices.Sorted(maps.Keys(v.Labels)) {
						fmt.Fprintf(w, "%s\t%s\n", k, v.Labels[k])
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "kept in the session's history")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

// relabelling reads what is to be changed.
func relabelling(words []string) (r schemas.LabelRequest, err error) {
	r.Labels = map[string]string{}
	for _, w := range words {
		k, v, set := strings.Cut(w, "=")
		key, remove := strings.CutSuffix(w, "-")
		switch {
		case set:
			r.Labels[k] = v
		case remove:
			r.Remove = append(r.Remove, key)
		default:
			return r, usagef("label %q: want K=V to set it, or K- to remove it", w)
		}
	}
	if err := r.Validate(); err != nil {
		return r, usage(err)
	}
	return r, nil
}

// runLabels reads the labels that a session is run with. A container's own may be such as no session has: these
// are the container's alone.
func runLabels(given []string, container bool) (map[string]string, error) {
	all := map[string]string{}
	for _, w := range given {
		k, v, set := strings.Cut(w, "=")
		if container && (len(all) == schemas.MaxLabels || schemas.ValidateLabels(map[string]string{k: v}) != nil) {
			continue
		}
		if !set && !container {
			return nil, usagef("--label %q: want K=V", w)
		}
		all[k] = v
	}
	if err := schemas.ValidateLabels(all); err != nil {
		return nil, usage(err)
	}
	return all, nil
}
