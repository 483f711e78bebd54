package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/objectstore/segment"
	"github.com/diapause/diapause/schemas"
)

// storeWaits is how long looking after a store may take, if --timeout doesn't say.
const storeWaits = time.Hour

func storeCommands(c *client) []*cobra.Command {
	store := &cobra.Command{Use: "store", Short: "Look after the object store of images"}
	store.AddCommand(storeCheckCommand(c), storePruneCommand(c), storeStatsCommand(c))
	return []*cobra.Command{store, verifyCommand(c)}
}

// patient asks with an hour's patience.
func patient[T any](ctx context.Context, c *client, verb string, req schemas.Request) (out T, err error) {
	if c.timeout == 0 {
		c.timeout = storeWaits
	}
	err = c.call(ctx, verb, req, &out)
	return out, err
}

func storeCheckCommand(c *client) *cobra.Command {
	var o schemas.StoreRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use: "check", Short: "Check that all that the sessions need is in the store, signed and whole", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := patient[schemas.StoreCheck](cmd.Context(), c, "store_check", schemas.Request{Store: &o})
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(out)
			} else {
				printCheck(out)
			}
			if err == nil && len(out.Problems) > 0 {
				return answered{schemas.WithHint(errors.New("the store has "+count(len(out.Problems), "problem")), "services/OPERATIONS.md says what to do")}
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&o.ReadData, "read-data", false, "read every pack and compare it with its digest")
	fl.StringVar(&o.Subset, "read-data-subset", "", "read the N-th of T parts of the packs, e.g. 3/7")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printCheck(out schemas.StoreCheck) {
	fmt.Fprintf(printed, "%s, %s, %s, %s, %s read, %s\n", count(out.Lineages, "lineage"), count(out.Snapshots, "snapshot"), count(out.Packs, "pack"),
		count(out.Segments, "log segment"), size(out.ReadBytes), count(len(out.Problems), "problem"))
	for _, p := range out.Problems {
		fmt.Fprintln(printed, "  - "+p)
	}
	for _, n := range out.Notes {
		fmt.Fprintln(printed, "  "+n)
	}
	for _, l := range out.Unknown {
		if strings.HasPrefix(l, segment.Prefix) {
			fmt.Fprintln(printed, "  not part of the log: "+l)
			continue
		}
		fmt.Fprintln(printed, "  no record knows lineage "+l)
	}
	for _, name := range out.Foreign {
		fmt.Fprintln(printed, "  not ours: "+name)
	}
}

func storePruneCommand(c *client) *cobra.Command {
	var o schemas.StoreRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Delete what the retention policy doesn't keep, and what nothing needs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := patient[schemas.StorePrune](cmd.Context(), c, "store_prune", schemas.Request{Store: &o})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out)
			}
			return printPrune(out)
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only tell what would be done")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printPrune(out schemas.StorePrune) error {
	did, archived, dropped := "deleted", "archived", "is dropped"
	if out.DryRun {
		did, archived, dropped = "would be deleted", "would be archived", "would be dropped"
	}
	for _, s := range out.Snapshots {
		fmt.Fprintf(printed, "snapshot %s of session %s of %s, %s: %s, %s\n", s.ID, s.Name, s.At.Format(time.RFC3339), size(s.StoredBytes), did, s.Reason)
	}
	for _, name := range out.Archived {
		fmt.Fprintf(printed, "session %s: %s\n", name, archived)
	}
	for _, name := range out.Dropped {
		fmt.Fprintf(printed, "session %s: its memory %s\n", name, dropped)
	}
	for _, name := range out.Expired {
		fmt.Fprintf(printed, "session %s: expired\n", name)
	}
	fmt.Fprintf(printed, "%s and %s of %s %s; %d more marked for later\n", count(len(out.Snapshots), "snapshot"), count(out.Deleted, "unused object"), size(out.DeletedBytes), did, out.Marked)
	if l := out.Log; l != nil && l.Moved > 0 {
		moved := "moved to the store"
		if out.DryRun {
			moved = "would be moved to the store"
		}
		fmt.Fprintf(printed, "%s of the log %s\n", count(l.Moved, "revision"), moved)
	}
	if len(out.Problems) == 0 {
		return nil
	}
	for _, p := range out.Problems {
		fmt.Fprintln(printed, "  - "+p)
	}
	return errors.New("not everything could be looked at")
}

func storeStatsCommand(c *client) *cobra.Command {
	return reading(c, "store_stats", "stats", "Show what the images of each session take", cobra.NoArgs, func(out schemas.StoreStats) {
		table("SESSION\tSNAPSHOTS\tCAPTURED\tSTORED\tRATIO\tUNUSED\tLINEAGE", func(w *tabwriter.Writer) {
			for _, s := range out.Sessions {
				name, ratio := s.Name, "-"
				if name == "" {
					name = "(unknown)"
				}
				if s.StoredBytes > 0 {
					ratio = fmt.Sprintf("%.1f", float64(s.LogicalBytes)/float64(s.StoredBytes))
				}
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", name, s.Snapshots, size(s.LogicalBytes), size(s.StoredBytes), ratio, size(s.UnusedBytes), s.Lineage)
			}
		})
		fmt.Fprintf(printed, "%s stored in all\n", size(out.StoredBytes))
		if h := out.Health; h.TotalBytes > 0 {
			fmt.Fprintf(printed, "%s free of %s\n", size(h.FreeBytes), size(h.TotalBytes))
		}
		if h := out.Health; h.LastError != "" {
			fmt.Fprintf(printed, "last error, %s ago: %s\n", ago(h.LastErrorAt), h.LastError)
		}
	})
}

func verifyCommand(c *client) *cobra.Command {
	var asJSON bool
	var o schemas.StoreRequest
	cmd := &cobra.Command{
		Use: "verify NAME [SNAPSHOT]", Short: "Read a snapshot from end to end and compare all of it", Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := schemas.Request{Name: args[0], Store: &o}
			if len(args) == 2 {
				req.Snapshot = args[1]
			}
			out, err := patient[schemas.Verified](cmd.Context(), c, "verify", req)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out)
			}
			restored := ""
			if out.Restored {
				restored = " and restored in quarantine"
			}
			fmt.Fprintf(printed, "snapshot %s of session %s is whole: %s, %s, %s, read%s in %.2f s\n", out.ID, out.Name, count(out.Entries, "entry"), size(out.LogicalBytes), count(out.Packs, "pack"), restored, out.Seconds)
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.Restore, "restore", false, "also restore it in quarantine, and kill it before its first instruction")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
