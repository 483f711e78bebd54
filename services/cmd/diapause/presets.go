package main

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

// presets are defaults that go together, by the name that --preset takes.
var presets = map[string][]setting{
	"terminals": {
		{schemas.ScopeAll, schemas.Policy{Slots: new(10)}},
		{schemas.ClassScope("terminal"), graceOf(5 * time.Minute)},
		{schemas.ClassScope("terminal"), archiveAfter(30 * day)},
		{schemas.ScopeAll, totalOf(1000)},
	},
}

const day = 24 * time.Hour

// setting is what a default says, before it is known what says it.
type setting struct {
	scope  schemas.PolicyScope
	policy schemas.Policy
}

// variable is one of the environment that sets a default. Its name is that of programs that Diapause takes
// the place of.
type variable struct {
	name        string
	least, most int
	unit        string
	settings    func(n int) []setting
}

// variables are all of them.
func variables() []variable {
	const month = 30 * day
	return []variable{
		{"TERMINAL_MAX_ACTIVE_SESSIONS", 1, 1_000_000, "sessions", func(n int) []setting {
			return []setting{{schemas.ScopeAll, schemas.Policy{Slots: &n}}}
		}},
		{"TERMINAL_HIBERNATE_AFTER_MINS", 1, int(month / time.Minute), "minutes", func(n int) []setting {
			return []setting{{schemas.ClassScope("terminal"), graceOf(time.Duration(n) * time.Minute)}}
		}},
		{"TERMINAL_ARCHIVE_AFTER_DAYS", 1, 36_500, "days", func(n int) []setting {
			return []setting{{schemas.ClassScope("terminal"), archiveAfter(time.Duration(n) * day)}}
		}},
		{"TERMINAL_MAX_TOTAL_SESSIONS", 1, 1_000_000, "sessions", func(n int) []setting {
			return []setting{{schemas.ScopeAll, totalOf(n)}}
		}},
		{"IDLE_SNAPSHOT_DELAY_SECONDS", 1, int(month / time.Second), "seconds", func(n int) []setting {
			p := graceOf(time.Duration(n) * time.Second)
			return []setting{{schemas.ClassScope("web"), p}, {schemas.ClassScope("desktop"), p}}
		}},
		{"SANDBOX_TIMEOUT_SECONDS", 60, int(day / time.Second), "seconds", func(n int) []setting {
			return []setting{{schemas.ScopeAll, schemas.Policy{Life: new(schemas.Duration(time.Duration(n) * time.Second))}}}
		}},
	}
}

func graceOf(d time.Duration) schemas.Policy { return schemas.Policy{Grace: new(schemas.Duration(d))} }

func archiveAfter(d time.Duration) schemas.Policy {
	return schemas.Policy{Keep: &schemas.Keep{Archive: new(schemas.Duration(d))}}
}

func totalOf(n int) schemas.Policy { return schemas.Policy{Quota: &schemas.Quota{Total: &n}} }

func presetFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "preset", "", "defaults that go together, below all policies: terminals is 10 slots on each host, and sessions of the class terminal suspended after 5 minutes idle and archived after 30 days asleep, 1,000 sessions of a tenant outside the archive")
}

// defaults gives what sessions are held to where no policy says otherwise, the uppermost last. The command line
// wins over the environment, and what says one thing over a preset: --slots, --preset, DIAPAUSE_SLOTS, the
// variables, DIAPAUSE_PRESET.
func (f *upFlags) defaults(cmd *cobra.Command) ([]schemas.PolicyDefault, error) {
	given := givenBy(cmd, "preset")
	preset, ok := presetDefaults(f.preset)
	if want := strings.Join(slices.Sorted(maps.Keys(presets)), ", "); !ok && given == byVariable {
		return nil, usagef("DIAPAUSE_PRESET=%q: want one of %s", f.preset, want)
	} else if !ok {
		return nil, usagef("--preset %q: want one of %s", f.preset, want)
	}
	all, err := variableDefaults()
	if err != nil {
		return nil, err
	}
	told := given == byCommandLine
	if told {
		all = over(preset, all)
	} else {
		all = over(all, preset)
	}
	switch slots := givenBy(cmd, "slots"); {
	case slots == byVariable && told:
		f.slots = 0 // the preset says it
	case slots != byNothing:
		all = slices.DeleteFunc(all, func(d schemas.PolicyDefault) bool { return d.Policy.Slots != nil }) // this host has its own
	}
	return all, nil
}

// presetDefaults gives those of a preset, none if it has no name; ok is false if there is no such preset.
func presetDefaults(name string) (all []schemas.PolicyDefault, ok bool) {
	settings, ok := presets[name]
	for _, s := range settings {
		all = append(all, schemas.PolicyDefault{Scope: s.scope, Policy: s.policy, From: "preset " + name})
	}
	return all, ok || name == ""
}

func variableDefaults() (all []schemas.PolicyDefault, err error) {
	for _, v := range variables() {
		text := os.Getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < v.least || n > v.most {
			return nil, usagef("%s=%q: want %s, from %d to %d", v.name, text, v.unit, v.least, v.most)
		}
		for _, s := range v.settings(n) {
			all = append(all, schemas.PolicyDefault{Scope: s.scope, Policy: s.policy, From: "variable " + v.name})
		}
	}
	return all, nil
}

// over gives both, without what is said above as well as below.
func over(above, below []schemas.PolicyDefault) []schemas.PolicyDefault {
	all := slices.DeleteFunc(slices.Clone(below), func(b schemas.PolicyDefault) bool {
		return slices.ContainsFunc(above, func(a schemas.PolicyDefault) bool {
			return a.Scope == b.Scope && slices.Equal(a.Policy.Keys(), b.Policy.Keys())
		})
	})
	return append(all, above...)
}
