package api

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// unresumed says of a session whose resume failed what a person can do, with the technical cause as detail.
func unresumed(v statekv.Versioned) *schemas.APIError {
	n, f := v.Name(), v.Failure
	e := schemas.FailedError("", "session %s couldn't be resumed on host %s", n, v.Host)
	e.Detail = f.Text
	again := fmt.Sprintf("`diapause resume %s` tries again", n)
	switch f.Cause {
	case schemas.CauseMissing, schemas.CauseDamaged:
		e.Reason = schemas.ReasonUnreadable
		again = fmt.Sprintf("`diapause rollback %s SNAPSHOT` goes back to an older snapshot (`diapause snapshots %s`), `diapause resume --clean %s` starts its command again", n, n, n)
		if v.TTY {
			again += fmt.Sprintf(", `diapause run --from %s --name NEW` starts a new terminal in its last directory", n)
		}
	case schemas.CauseRefused:
		again = fmt.Sprintf("`diapause resume %s` tries again, `diapause resume --clean %s` starts its command again", n, n)
	}
	switch why := f.Cause.Phrase(); {
	case why != "":
		e.Text = fmt.Sprintf("session %s can't be resumed: %s", n, why)
	case f.Hint != "": // who knows what to do has put it into words, before what criu says
		e.Text, _, _ = strings.Cut(f.Of(n), " (criu: ")
	}
	return e.WithHint("%s", cmp.Or(f.Hint, again))
}

// tooSoon refuses to try a resume again that failed again and again; nil if it may be tried.
func (s *resumer) tooSoon(v statekv.Versioned, now time.Time) error {
	p := s.quotas.policyOf(v.SessionRecord)
	when := session.RetryAsked(v.Failure, p)
	if v.State != schemas.Suspended || !when.After(now) || session.Fresh(v.SessionRecord, p) != "" {
		return nil
	}
	e := unresumed(v)
	return e.WithHint("%s; `diapause resume %s` tries at once, who only uses it waits until %s", e.Hint, v.Name(), when.UTC().Format(time.RFC3339))
}
