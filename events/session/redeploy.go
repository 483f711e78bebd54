package session

import (
	"fmt"
	"path"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
)

// Successor is what others have started on a host and is to be a session that exists: another
// container in the place of the session's, or the session's own.
type Successor struct {
	Host   schemas.HostID
	Driver schemas.DriverName
	Called string // on that host
	Why    schemas.Existing
	Of     schemas.UID // the session whose own it is
}

// whenStarted says when others started a successor, by what the session is.
var whenStarted = map[schemas.State]string{
	schemas.Suspended: "while it was suspended",
	schemas.Exited:    "after its command had ended",
	schemas.Failed:    "after it had failed",
}

// DecideRedeploy says what becomes of a session for which others have started something: the
// transition by which the session goes on with that, or why it doesn't. Two copies never run:
// a session that runs, or is about to, keeps what it has, and so does one of another host, which
// may start it at any time.
func DecideRedeploy(r schemas.SessionRecord, s Successor, now time.Time) (t schemas.Transition, refused string) {
	switch {
	case r.Driver != s.Driver:
		return t, fmt.Sprintf("its driver is %s, not %s", r.Driver, s.Driver)
	case r.Op != nil:
		return t, fmt.Sprintf("it is %s, and its %s is under way", r.State, r.Op.Kind)
	case !Can(r.State, schemas.TRedeployed):
		return t, fmt.Sprintf("it is %s", r.State)
	case r.Host != s.Host:
		return t, fmt.Sprintf("it is %s on host %s, and %s is on host %s", r.State, r.Host, s.Called, s.Host)
	case s.Why == schemas.ExistingOwn && r.UID != s.Of:
		return t, fmt.Sprintf("it isn't the one that had %s", s.Called)
	case s.Why == schemas.ExistingAsks && r.Program != s.Called:
		return t, fmt.Sprintf("it is %s, and was made of %s", r.State, r.Program)
	}
	t = schemas.Transition{Type: schemas.TRedeployed, At: now}
	switch s.Why {
	case schemas.ExistingOwn:
		t.Reason = fmt.Sprintf("its container %s was started by others %s", s.Called, whenStarted[r.State])
	default:
		what := "container"
		if r.Driver == adoptspec.Driver {
			what = "process"
		}
		t.Reason = fmt.Sprintf("%s %s took its place %s", what, s.Called, whenStarted[r.State])
	}
	if r.State == schemas.Suspended && r.Head != nil {
		t.Set.Warnings = []schemas.Warning{{
			Code: schemas.WarnRedeployed, Subject: s.Called, At: now,
			Text: fmt.Sprintf("%s; what was suspended stays as snapshot %s, and `diapause rollback %s %[2]s` goes back to it", t.Reason, path.Base(r.Head.Name), r.Name()),
		}}
	}
	return t, ""
}
