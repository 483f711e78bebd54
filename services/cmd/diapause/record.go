package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/diapause/diapause/schemas"
)

// addRecord adds the flags that say what is recorded.
func (f *runFlags) addRecord(fl *pflag.FlagSet) {
	fl.StringVar(&f.record, "record", "", "with --tty: keep what its terminal shows: off, output, or output+input for what is typed as well, passwords among it (default output)")
	sizeVar(fl, &f.recordKeep, "record-keep", "of what is recorded, keep the last so much in the store, e.g. 1G (default: all)")
	fl.StringVar(&f.shells, "shell-integration", schemas.On, "with --tty: have bash, zsh and fish say where commands begin and end, for `diapause commands`: on, or off to leave them alone")
}

// checkRecord refuses a recording that can't be, and has a shell left alone that is to be.
func (f runFlags) checkRecord(s *schemas.Spec) error {
	if f.recordKeep != 0 && f.record == schemas.RecordOff {
		return usagef("--record-keep: nothing is recorded with --record off")
	}
	if f.recordKeep != 0 && (f.recordKeep < schemas.MinRecordKeep || !f.tty || f.container.Image != "") {
		return usagef("--record-keep: want at least %s, of a process tree with --tty", schemas.Bytes(schemas.MinRecordKeep))
	}
	if f.record != "" && (!slices.Contains(schemas.Records, f.record) || !f.tty || f.container.Image != "") {
		return usagef("--record %q: want %s, of a process tree with --tty", f.record, strings.Join(schemas.Records, ", "))
	}
	switch f.shells {
	case schemas.On:
	case schemas.Off:
		s.ShellIntegration = schemas.Off
	default:
		return usagef("--shell-integration %q: want on or off", f.shells)
	}
	return nil
}
