package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

func statsCommand(c *client) *cobra.Command {
	return reading(c, "stats", "stats", "Count the sessions, and what was heard of them", cobra.NoArgs, func(s schemas.Stats) {
		var states []string
		for state := range s.Sessions {
			states = append(states, string(state))
		}
		slices.Sort(states)
		for _, state := range states {
			fmt.Fprintf(printed, "%-12s %d\n", state, s.Sessions[schemas.State(state)])
		}
		i := s.Intake
		fmt.Fprintf(printed, "%-12s %s, %d of them CloudEvents\n", "heard", count(i.Activity, "message"), i.CloudEvents)
		if i.Skewed > 0 {
			fmt.Fprintf(printed, "%-12s %d by a clock that is more than 5 minutes off; nothing depends on it\n", "", i.Skewed)
		}
		if i.Gaps > 0 {
			fmt.Fprintf(printed, "%-12s %s nothing could be heard for a while: every grace started again\n", "", count(i.Gaps, "time"))
		}
		if i.Strangers > 0 {
			fmt.Fprintf(printed, "%-12s %s that there aren't, %d of them forgotten\n", "strangers", count(i.Strangers, "session"), i.Forgotten)
		}
		if bad := i.BadSubject + i.UnknownKind + i.BadPayload + i.TooBig; bad > 0 {
			fmt.Fprintf(printed, "%-12s %s: %d by their subject, %d kind, %d payload, %d size\n", "unreadable", count(bad, "message"), i.BadSubject, i.UnknownKind, i.BadPayload, i.TooBig)
		}
		if i.LastBad != nil {
			fmt.Fprintf(printed, "%-12s %s ago: %s\n", "", ago(i.LastBad.At), i.LastBad.Text)
		}
	})
}
