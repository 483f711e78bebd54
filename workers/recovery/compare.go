package recovery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Here is a session's processes as this host has them.
type Here struct {
	Driver schemas.DriverName
	UID    schemas.UID
	Name   schemas.Name
	Epoch  uint64 // the highest that its shim was given
	Frozen bool
	Exited bool
}

// Compare gives the signs that transitions were lost from the log; none if it is as this host
// saw it, or further.
func Compare(saw, is Mark, log, kept map[schemas.Name]schemas.SessionRecord, here []Here) (signs []string) {
	say := func(format string, args ...any) { signs = append(signs, fmt.Sprintf(format, args...)) }
	switch {
	case saw.Created.IsZero():
	case !saw.Created.Equal(is.Created):
		say("the log of sessions is another one: made at %s, not at %s", stamp(is.Created), stamp(saw.Created))
	case is.Seq < saw.Seq:
		say("the log of sessions ends at entry %d, and was at %d", is.Seq, saw.Seq)
	}
	for n, r := range kept {
		have, ok := log[n]
		if over(r) && (!ok || followed(r, have)) {
			continue // removed sessions leave the log
		}
		if !ok {
			say("session %s has no record, and had one of epoch %d", n, r.Epoch)
		} else if Newer(r, have) {
			say("the record of session %s is of epoch %d, version %d, and was at epoch %d, version %d", n, have.Epoch, have.Version, r.Epoch, r.Version)
		}
	}
	for _, i := range here {
		if have, ok := log[i.Name]; !ok {
			say("session %s is on this host and has no record", i.Name)
		} else if i.Epoch > have.Epoch {
			say("session %s is on this host at epoch %d, its record is of epoch %d", i.Name, i.Epoch, have.Epoch)
		}
	}
	slices.SortFunc(signs, strings.Compare)
	return signs
}

// Replaced gives a sign if the log has another entry in the place of one that was seen: the log
// went back, and has gone on since. id is the transition that the log has there, "" if that
// isn't known.
func Replaced(saw Mark, id string) (signs []string) {
	if saw.ID == "" || id == "" || saw.ID == id {
		return nil
	}
	return []string{fmt.Sprintf("entry %d of the log of sessions is another one: transition %s, not %s", saw.Seq, id, saw.ID)}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
