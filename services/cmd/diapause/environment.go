package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fromVariable annotates a flag that has its value from a variable of the environment.
const fromVariable = "from-variable"

// giver is what gave a flag its value.
type giver int

const (
	byNothing giver = iota
	byVariable
	byCommandLine
)

// givenBy says what gave a flag of a command that reads fromEnvironment its value.
func givenBy(cmd *cobra.Command, name string) giver {
	f := cmd.Flag(name)
	switch {
	case f == nil || !f.Changed:
		return byNothing
	case f.Annotations[fromVariable] != nil:
		return byVariable
	}
	return byCommandLine
}

// fromEnvironment has each flag of a command that runs for long, which has no variable yet, take its value from
// one: --lease from DIAPAUSE_LEASE. What is on the command line wins. One that may be given several times takes
// several values, separated by commas.
func fromEnvironment(cmd *cobra.Command) *cobra.Command {
	variables := map[*pflag.Flag]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.Contains(f.Usage, "DIAPAUSE_") {
			return
		}
		variables[f] = "DIAPAUSE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		f.Usage += " (" + variables[f] + ")"
	})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name, has := variables[f]
			value := os.Getenv(name)
			if !has || f.Changed || value == "" || err != nil {
				return
			}
			values := []string{value}
			if _, several := f.Value.(pflag.SliceValue); several {
				values = strings.Split(value, ",")
			}
			for _, v := range values {
				_ = cmd.Flags().SetAnnotation(f.Name, fromVariable, []string{name}) // there is such a flag
				if setErr := cmd.Flags().Set(f.Name, v); setErr != nil && err == nil {
					err = usagef("%s=%q: not a value of --%s", name, value, f.Name).WithHint("%v", setErr)
				}
			}
		})
		return err
	}
	return cmd
}
