package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

// defaultsWith gives what `up` has for defaults, a line each, and the slots of its host.
func defaultsWith(t *testing.T, env map[string]string, args ...string) (lines string, slots int, err error) {
	t.Helper()
	for _, v := range variables() {
		t.Setenv(v.name, "")
		os.Unsetenv(v.name)
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	var f upFlags
	cmd := &cobra.Command{Use: "up", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
		all, err := f.defaults(cmd)
		var words []string
		for _, d := range all {
			if err := d.Policy.Validate(d.Scope); err != nil {
				t.Error(err)
			}
			words = append(words, string(d.Scope)+" "+strings.Join(d.Policy.Lines(), " ")+" "+d.From)
		}
		lines = strings.Join(words, "; ")
		return err
	}}
	presetFlag(cmd, &f.preset)
	slotsFlag(cmd, &f.slots)
	cmd = fromEnvironment(cmd)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return lines, f.slots, err
}

// The command line wins over the environment, and what says one thing over a preset.
func TestDefaults(t *testing.T) {
	const slots, grace = "TERMINAL_MAX_ACTIVE_SESSIONS", "TERMINAL_HIBERNATE_AFTER_MINS"
	for name, c := range map[string]struct {
		env   map[string]string
		args  []string
		want  string
		slots int
	}{
		"nothing":                      {want: ""},
		"a preset":                     {args: []string{"--preset", "terminals"}, want: "all slots=10 preset terminals; class:terminal grace=5m0s preset terminals; class:terminal keep=archive:30d preset terminals; all quota=total:1000 preset terminals"},
		"a preset by a variable":       {env: map[string]string{"DIAPAUSE_PRESET": "terminals"}, want: "all slots=10 preset terminals; class:terminal grace=5m0s preset terminals; class:terminal keep=archive:30d preset terminals; all quota=total:1000 preset terminals"},
		"slots":                        {env: map[string]string{slots: "3"}, want: "all slots=3 variable " + slots},
		"a grace":                      {env: map[string]string{grace: "7"}, want: "class:terminal grace=7m0s variable " + grace},
		"an idle delay":                {env: map[string]string{"IDLE_SNAPSHOT_DELAY_SECONDS": "90"}, want: "class:web grace=1m30s variable IDLE_SNAPSHOT_DELAY_SECONDS; class:desktop grace=1m30s variable IDLE_SNAPSHOT_DELAY_SECONDS"},
		"an age":                       {env: map[string]string{"TERMINAL_ARCHIVE_AFTER_DAYS": "7"}, want: "class:terminal keep=archive:7d variable TERMINAL_ARCHIVE_AFTER_DAYS"},
		"a total":                      {env: map[string]string{"TERMINAL_MAX_TOTAL_SESSIONS": "20"}, want: "all quota=total:20 variable TERMINAL_MAX_TOTAL_SESSIONS"},
		"a timeout":                    {env: map[string]string{"SANDBOX_TIMEOUT_SECONDS": "86400"}, want: "all life=1d variable SANDBOX_TIMEOUT_SECONDS"},
		"a preset over a variable":     {env: map[string]string{grace: "7", "SANDBOX_TIMEOUT_SECONDS": "60"}, args: []string{"--preset", "terminals"}, want: "all life=1m0s variable SANDBOX_TIMEOUT_SECONDS; all slots=10 preset terminals; class:terminal grace=5m0s preset terminals; class:terminal keep=archive:30d preset terminals; all quota=total:1000 preset terminals"},
		"a variable over the variable": {env: map[string]string{grace: "7", "DIAPAUSE_PRESET": "terminals"}, want: "all slots=10 preset terminals; class:terminal keep=archive:30d preset terminals; all quota=total:1000 preset terminals; class:terminal grace=7m0s variable " + grace},
		"slots over all":               {env: map[string]string{slots: "3"}, args: []string{"--preset", "terminals", "--slots", "4"}, want: "class:terminal grace=5m0s preset terminals; class:terminal keep=archive:30d preset terminals; all quota=total:1000 preset terminals", slots: 4},
		"no limit":                     {env: map[string]string{slots: "3"}, args: []string{"--slots", "0"}},
		"slots by a variable":          {env: map[string]string{slots: "3", "DIAPAUSE_SLOTS": "4"}, slots: 4},
		"a preset over that":           {env: map[string]string{"DIAPAUSE_SLOTS": "4"}, args: []string{"--preset", "terminals"}, want: "all slots=10 preset terminals; class:terminal grace=5m0s preset terminals; class:terminal keep=archive:30d preset terminals; all quota=total:1000 preset terminals"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, slots, err := defaultsWith(t, c.env, c.args...); err != nil || got != c.want || slots != c.slots {
				t.Errorf("%q, %d slots, %v", got, slots, err)
			}
		})
	}
}

func TestDefaultsThatAreWrong(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"SANDBOX_TIMEOUT_SECONDS", "86401", "want seconds, from 60 to 86400"},
		{"SANDBOX_TIMEOUT_SECONDS", "0", "want seconds, from 60 to 86400"},
		{"IDLE_SNAPSHOT_DELAY_SECONDS", "5m", "want seconds, from 1 to 2592000"},
		{"TERMINAL_HIBERNATE_AFTER_MINS", "0.5", "want minutes, from 1 to 43200"},
		{"TERMINAL_MAX_ACTIVE_SESSIONS", "0", "want sessions, from 1"},
		{"TERMINAL_ARCHIVE_AFTER_DAYS", "0", "want days, from 1 to 36500"},
		{"TERMINAL_ARCHIVE_AFTER_DAYS", "30d", "want days, from 1"},
		{"TERMINAL_MAX_TOTAL_SESSIONS", "-1", "want sessions, from 1"},
		{"DIAPAUSE_PRESET", "terminal", "want one of terminals"},
	} {
		_, _, err := defaultsWith(t, map[string]string{c.name: c.value})
		if err == nil || !strings.Contains(err.Error(), c.value) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), c.name) {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
}

// What a variable may be is what a policy may say.
func TestVariablesWithinPolicies(t *testing.T) {
	for _, v := range variables() {
		for _, n := range []int{v.least, v.most} {
			for _, s := range v.settings(n) {
				doc := schemas.PolicyDocument{Scope: schemas.ScopeDefaults, Defaults: []schemas.PolicyDefault{{Scope: s.scope, Policy: s.policy}}}
				if err := doc.Validate(); err != nil {
					t.Errorf("%s=%d: %v", v.name, n, err)
				}
			}
		}
	}
}
