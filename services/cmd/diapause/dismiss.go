package main

import (
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

func dismissCommand(c *client) *cobra.Command {
	return sessionVerb{verb: "dismiss", use: "dismiss NAME...", short: "Take the notice away that a session was restarted without its memory, and let the snapshots go that it kept"}.command(c)
}

// printNotice shows that a session was restarted without its memory, and what can be done.
func printNotice(line func(k, format string, args ...any), v schemas.View) {
	n := v.Notice
	line("notice", "%s, at %s", n.Text, n.At.Format(time.RFC3339))
	for _, h := range n.Kept {
		line("", "snapshot %s is kept: `diapause fork %s NEW --snapshot %[1]s`, `diapause rollback %[2]s %[1]s`", path.Base(h.Name), v.Name)
	}
	line("", "`diapause dismiss %s` takes the notice away", v.Name)
}
