package criu

import (
	"os"
	"slices"
	"strings"
)

// Mends are the names of the patches in patches, without their numbers: what CRIU as it is
// released doesn't bring back.
var Mends = []string{"tcp-unsent", "inotify", "timerfd", "subreaper", "terminal", "eventfd", "affinity", mendExitKill}

// mendExitKill has what is being restored die with CRIU, until it is let run.
const mendExitKill = "exit-kill"

// Missing lists the mends that the CRIU of command, as Find gives it, hasn't. build.sh writes
// those that it has into a file beside the program; one without that file has none.
func Missing(command []string) []string {
	var have []string
	if b, err := os.ReadFile(command[len(command)-1] + ".mends"); err == nil {
		have = strings.Fields(string(b))
	}
	return slices.DeleteFunc(slices.Clone(Mends), func(m string) bool { return slices.Contains(have, m) })
}
