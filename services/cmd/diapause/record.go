package main

import (
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// checkRecord refuses a recording that can't be.
func (f runFlags) checkRecord() error {
	if f.recordKeep != 0 && (f.record == "" || f.record == schemas.RecordOff) {
		return usagef("--record-keep: nothing is recorded without --record output")
	}
	if f.recordKeep != 0 && (f.recordKeep < schemas.MinRecordKeep || !f.tty || f.container.Image != "") {
		return usagef("--record-keep: want at least %s, of a process tree with --tty", schemas.Bytes(schemas.MinRecordKeep))
	}
	if f.record != "" && (!slices.Contains(schemas.Records, f.record) || !f.tty || f.container.Image != "") {
		return usagef("--record %q: want %s, of a process tree with --tty", f.record, strings.Join(schemas.Records, ", "))
	}
	if f.shells != schemas.On && f.shells != schemas.Off {
		return usagef("--shell-integration %q: want on or off", f.shells)
	}
	return nil
}
