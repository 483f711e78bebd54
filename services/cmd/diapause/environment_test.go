package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestFromEnvironment(t *testing.T) {
	ask := func(args ...string) (lease string, labels []string, slots int, err error) {
		cmd := fromEnvironment(func() *cobra.Command {
			cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
			cmd.Flags().StringVar(&lease, "lease-time", "30s", "how long")
			cmd.Flags().StringArrayVar(&labels, "label", nil, "K=V")
			cmd.Flags().IntVar(&slots, "slots", 0, "how many")
			return cmd
		}())
		cmd.SetArgs(args)
		return lease, labels, slots, cmd.Execute()
	}
	t.Setenv("DIAPAUSE_LEASE_TIME", "1m")
	t.Setenv("DIAPAUSE_LABEL", "a=1,b=2")
	if lease, labels, slots, err := ask(); err != nil || lease != "1m" || !slices.Equal(labels, []string{"a=1", "b=2"}) || slots != 0 {
		t.Error(lease, labels, slots, err)
	}
	if lease, labels, _, err := ask("--lease-time", "2m", "--label", "c=3"); err != nil || lease != "2m" || !slices.Equal(labels, []string{"c=3"}) {
		t.Error(lease, labels, err)
	}
	t.Setenv("DIAPAUSE_SLOTS", "ten")
	if _, _, _, err := ask(); err == nil || !strings.Contains(err.Error(), `DIAPAUSE_SLOTS="ten"`) {
		t.Error(err)
	}
	if _, _, slots, err := ask("--slots", "3"); err != nil || slots != 3 {
		t.Error(slots, err)
	}
}

// Each flag of what runs for long has a variable, and its help names it.
func TestFlagsHaveVariables(t *testing.T) {
	root := newRoot()
	for _, name := range []string{"up", "worker", "scheduler", "api", "gateway"} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if usage := cmd.Flags().FlagUsages(); strings.Count(usage, "\n") != strings.Count(usage, "DIAPAUSE_") {
			t.Errorf("%s has flags without a variable:\n%s", name, usage)
		}
	}
}
