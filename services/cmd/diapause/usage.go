package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const usageHelp = `Show how long sessions ran and slept, and what their images took in the store, summed up
from the log: of one session, of a tenant, or of all; since the beginning of the log, or
for a time that ends now. --by day parts it by days in UTC, of the last 30 days if no other time is given.

MEMORY is how much was captured of a session last, times the time that it ran; SAVED is the same, times the time
that it was suspended. Before its first suspend or checkpoint a session's size isn't known, and counts as none.

A session is metered as running from the transition that says that it runs to the one that
says that it is suspended, to the instant. The same figures are published every hour as
events: diapause.v1.event.<tenant>.<session>.usage.`

func usageCommand(c *client) *cobra.Command {
	var since time.Duration
	var tenant, by string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "usage [NAME]", Short: "Show what sessions used", Long: usageHelp, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := schemas.Request{Tenant: schemas.Tenant(tenant), Usage: &schemas.UsageRequest{Since: schemas.Duration(since), By: schemas.UsageBy(by)}}
			if since < 0 || since == 0 && cmd.Flags().Changed("since") {
				return usagef("--since %s: want a time above 0, e.g. 24h", since).WithHint("without it all of the log counts")
			}
			if tenant != "" && len(args) > 0 {
				return usagef("usage: name a session as %s/%s, or a --tenant, not both", tenant, args[0])
			}
			if len(args) > 0 {
				req.Name = args[0]
			}
			out, err := patient[schemas.UsageReport](cmd.Context(), c, "usage", req)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out)
			}
			if by != "" {
				printDays(out)
			} else {
				printUsage(out)
			}
			printGaps(out)
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&tenant, "tenant", "", "of this tenant alone")
	durationVar(fl, &since, "since", 0, "of the last time alone, e.g. 24h or 7d")
	fl.StringVar(&by, "by", "", "day: of each day")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printUsage(out schemas.UsageReport) {
	table("NAME\tRUNNING\tSUSPENDED\tSTORED\tSTORED × TIME\tSUSPENDS\tRESUMES\tCHECKPOINTS", func(w *tabwriter.Writer) {
		line := func(name string, stored int64, a schemas.Amount) {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", name, spent(a.RunningSeconds), spent(a.SuspendedSeconds), size(stored),
				gigabyteHours(a.StoredByteSeconds), a.Suspends, a.Resumes, a.Checkpoints)
		}
		for _, s := range out.Sessions {
			line(s.Name, s.StoredBytes, s.Amount)
		}
		for _, t := range out.Tenants {
			line(fmt.Sprintf("all of %s (%d)", t.Tenant, t.Sessions), t.StoredBytes, t.Amount)
		}
	})
	for _, t := range out.Tenants {
		if t.Quota != nil && t.Held != nil {
			fmt.Fprintln(printed, "quota of "+string(t.Tenant)+": "+quotaLine(*t.Quota, *t.Held))
		}
	}
	if out.Omitted > 0 {
		fmt.Fprintf(printed, "%d more not listed: name a session, or a --tenant\n", out.Omitted)
	}
}

func printDays(out schemas.UsageReport) {
	table("DAY\tTENANT\tRUNNING\tSUSPENDED\tMEMORY\tSAVED\tSTORED\tSUSPENDS\tRESUMES\tWAKES", func(w *tabwriter.Writer) {
		for _, d := range out.Days {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", d.From.Format(time.DateOnly), d.Tenant, spent(d.RunningSeconds), spent(d.SuspendedSeconds),
				gigabyteHours(d.UsedByteSeconds), gigabyteHours(d.SavedByteSeconds), size(d.StoredBytes), d.Suspends, d.Resumes, d.Wakes)
		}
	})
}

// printGaps says what the sums lack.
func printGaps(out schemas.UsageReport) {
	for _, g := range out.Gaps {
		fmt.Fprintln(printed, "not counted: "+g)
	}
}

// quotaLine says how much of a quota is taken.
func quotaLine(q schemas.Quota, h schemas.Held) string {
	var words []string
	for _, part := range []struct {
		most *int
		has  int
		what string
	}{{q.Sessions, h.Sessions, "sessions"}, {q.Running, h.Running, "running"}} {
		if part.most != nil && *part.most > 0 {
			words = append(words, fmt.Sprintf("%d of %d %s", part.has, *part.most, part.what))
		}
	}
	if q.Stored != nil && *q.Stored > 0 {
		words = append(words, fmt.Sprintf("%s of %s stored", size(int64(h.Stored)), *q.Stored))
	}
	if len(words) == 0 {
		return "no limit"
	}
	return strings.Join(words, ", ")
}

// spent writes seconds as a time, to the second.
func spent(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// gigabyteHours writes what was stored for how long in the unit that stores charge by.
func gigabyteHours(byteSeconds float64) string {
	return fmt.Sprintf("%.3f GB·h", byteSeconds/1e9/3600)
}
