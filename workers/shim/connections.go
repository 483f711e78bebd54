package shim

import (
	"fmt"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/tree"
)

// closedOnResume warns of the connections that won't survive. Those with the outside of a private
// network are ended one by one. Else criu can keep all of them or none: connections within the
// session are kept where there are no others.
func closedOnResume(all []tree.Connection, private bool) []schemas.Warning {
	var lines []schemas.Warning
	inside := 0
	for _, c := range all {
		switch {
		case c.Pending:
			// Never accepted: its client sees a reset, the session nothing.
		case c.Inside:
			inside++
		default:
			lines = append(lines, schemas.Warning{Code: schemas.WarnConnection, Subject: c.String(),
				Text: fmt.Sprintf("the TCP connection %s is with the outside and will be closed on resume", c)})
		}
	}
	if len(lines) > 0 && inside > 0 && !private {
		lines = append(lines, schemas.Warning{Code: schemas.WarnConnection, Subject: "connections within the session",
			Text: fmt.Sprintf("%d ends of TCP connections within the session will be closed too, since there are connections with the outside", inside)})
	}
	return lines
}
