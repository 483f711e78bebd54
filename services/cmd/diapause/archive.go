package main

import (
	"github.com/spf13/cobra"

	"github.com/diapause/diapause/schemas"
)

const archiveHelp = `Put sessions with a terminal into the archive. One that runs is suspended first.

What is archived isn't listed ("diapause ls --archived" does), counts neither against a quota of sessions nor
against what a tenant may have outside the archive, and isn't removed by any retention. What it showed is read as
before: logs, commands, output, screen, replay, export and search never take it out. Its snapshots stay. No use of it resumes it:
"attach", "exec", "ensure" and requests from outside are refused. "diapause resume" takes it out of the archive.

Policies archive, too: keep=archive:30d those that have been asleep for so long, quota=total:1000 the oldest of a tenant
that has more.`

func archiveCommand(c *client) *cobra.Command {
	cmd := sessionVerb{verb: "archive", use: "archive NAME...", short: "Put sessions with a terminal into the archive", warns: true}.command(c)
	cmd.Long = archiveHelp
	cmd.Example = "  diapause archive work\n  diapause ls --archived\n  diapause resume work"
	return cmd
}

// archivedFor says why a session was archived.
func archivedFor(why schemas.ArchivedFor) string {
	switch why {
	case schemas.ArchivedByHand:
		return "by hand"
	case schemas.ArchivedForAge:
		return "for its age"
	case schemas.ArchivedForRoom:
		return "to make room"
	case schemas.ArchivedImport:
		return "as it was imported"
	}
	return string(why)
}
