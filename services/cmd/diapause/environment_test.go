package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// named finds the variable that the help of a flag names as its own.
var named = regexp.MustCompile(`\((DIAPAUSE_[A-Z_]+)\)$`)

// samples are values of which each kind of flag takes one.
var samples = []string{"12", "7m", "true"}

// Each flag of what runs for long has a variable, its help names it, and it sets the flag.
func TestFlagsHaveVariables(t *testing.T) {
	walked := 0
	for _, name := range []string{"up", "worker", "scheduler", "api", "gateway"} {
		variable := map[string]string{}
		find(t, name).Flags().VisitAll(func(f *pflag.Flag) {
			m := named.FindStringSubmatch(f.Usage)
			if name == "gateway" && f.Name == "plain-beyond-loopback" {
				return // it takes the flag and the variable, which says something else
			}
			if m == nil {
				t.Errorf("%s --%s has no variable: %s", name, f.Name, f.Usage)
				return
			}
			variable[f.Name] = m[1]
		})
		for flag, v := range variable {
			walked++
			if !setBy(t, name, flag, v) {
				t.Errorf("%s doesn't set %s --%s", v, name, flag)
			}
		}
	}
	if walked < 60 {
		t.Errorf("only %d flags are looked at", walked)
	}
}

func find(t *testing.T, name string) *cobra.Command {
	t.Helper()
	cmd, _, err := newRoot().Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// setBy reports whether a variable sets a flag to some value that it takes.
func setBy(t *testing.T, command, flag, variable string) bool {
	t.Helper()
	was, had := os.LookupEnv(variable)
	defer func() {
		if had {
			os.Setenv(variable, was)
		} else {
			os.Unsetenv(variable)
		}
	}()
	for _, value := range samples {
		os.Setenv(variable, value)
		cmd := find(t, command)
		if cmd.PreRunE(cmd, nil) != nil {
			continue
		}
		if got := cmd.Flag(flag).Value.String(); got == value || got == "["+value+"]" {
			return true
		}
	}
	return false
}
