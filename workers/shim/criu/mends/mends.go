// Package mends knows which patches of workers/criu/patches a CRIU has. What a CRIU without
// them loses, or can't bring back, preflight refuses or warns about by name, and doctor lists.
//
// It reads a file that build.sh puts beside the program, and never runs CRIU.
package mends

import (
	"os"
	"slices"
	"strings"
)

// All are the names of the patches, without their numbers: what CRIU as it is released
// doesn't bring back.
var All = []string{
	"tcp-unsent", "inotify", "timerfd", "subreaper", "terminal", "eventfd", "affinity",
	ExitKill, "sockopts", "attributes", "memory", "restart", "timers", "urgent",
	"sleep",
	"posix-locks",
	"terminal-flags",
	"reserved",
	"in-flight",
	"expiring",
	"terminal-input",
	"empty-packets",
	"stream-copies",
	"protection-keys",
	"tmpfs",
	"conntrack",
	"shared-files",
	"remap-path",
	"interrupted-calls",
}

// ExitKill has what is being restored die with CRIU, until it is let run.
const ExitKill = "exit-kill"

// passing are the patches on which no image depends: what they mend is over when it is written, or
// is the restoring CRIU's own.
var passing = []string{ExitKill, "in-flight", "stream-copies", "tmpfs", "conntrack", "shared-files", "remap-path", "interrupted-calls"}

// Kept lists the patches that the CRIU of a command line has and without which another one would lose
// something of its images.
func Kept(command []string) []string {
	not := append(Missing(command), passing...)
	return slices.DeleteFunc(slices.Clone(All), func(m string) bool { return slices.Contains(not, m) })
}

// Missing lists the patches that the CRIU of a command line hasn't. build.sh writes those
// that it has into a file beside the program; one without that file has none.
func Missing(command []string) []string {
	var have []string
	if len(command) > 0 {
		b, _ := os.ReadFile(command[len(command)-1] + ".mends")
		have = strings.Fields(string(b))
	}
	return slices.DeleteFunc(slices.Clone(All), func(m string) bool { return slices.Contains(have, m) })
}
