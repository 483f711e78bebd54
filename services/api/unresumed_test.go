package api

import (
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// A person hears in one sentence what is wrong, and what to do; how that showed is the detail.
func TestUnresumed(t *testing.T) {
	for _, c := range []struct {
		failure schemas.Failure
		text    string
		hint    string
		reason  schemas.Reason
	}{
		{schemas.Failure{Text: "packs/7d.age is missing", Cause: schemas.CauseDamaged}, "session web can't be resumed: its snapshot is damaged", "rollback web SNAPSHOT", schemas.ReasonUnreadable},
		{schemas.Failure{Text: "snaps/2-5: object not found", Cause: schemas.CauseMissing}, "session web can't be resumed: its snapshot is missing from the store", "resume --clean web", schemas.ReasonUnreadable},
		{schemas.Failure{Text: "criu says: Can't find x", Cause: schemas.CauseRefused}, "session web can't be resumed: its snapshot can't be restored on any host that fits", "resume --clean web", ""},
		{schemas.Failure{Text: "connection refused"}, "session web couldn't be resumed on host h", "`diapause resume web` tries again", ""},
		{schemas.Failure{Text: "session web can't be restored: its address is in use (criu: inet: Can't bind)", Hint: "end what uses it"}, "session web can't be restored: its address is in use", "end what uses it", ""},
	} {
		f := c.failure
		f.Op = schemas.OpResume
		e := unresumed(statekv.Versioned{SessionRecord: schemas.SessionRecord{Tenant: "default", Session: "web", Host: "h", Failure: &f}})
		if e.Text != c.text || !strings.Contains(e.Hint, c.hint) || e.Detail != f.Text || e.Reason != c.reason || e.Code != schemas.CodeFailed {
			t.Errorf("%s: %q, %q, %q, %q", f.Text, e.Text, e.Hint, e.Detail, e.Reason)
		}
	}
}

// Who uses a session whose resumes fail again and again is told when it is tried again; who asks for the resume isn't held up,
// nor who would have it started fresh.
func TestTooSoon(t *testing.T) {
	r := &resumer{quotas: &quotas{}}
	v := func(change func(*schemas.SessionRecord)) statekv.Versioned {
		rec := schemas.SessionRecord{
			Tenant: "default", Session: "web", Class: "web", State: schemas.Suspended, Failure: &schemas.Failure{Op: schemas.OpResume, Resumes: 5, At: morning},
		}
		change(&rec)
		return statekv.Versioned{SessionRecord: rec}
	}
	for what, c := range map[string]struct {
		change func(*schemas.SessionRecord)
		after  time.Duration
		want   bool
	}{
		"at once":          {func(*schemas.SessionRecord) {}, time.Second, true},
		"later":            {func(*schemas.SessionRecord) {}, time.Hour, false},
		"after the first":  {func(r *schemas.SessionRecord) { r.Failure.Resumes = 2 }, time.Second, false},
		"it runs":          {func(r *schemas.SessionRecord) { r.State = schemas.Running }, time.Second, false},
		"a suspend failed": {func(r *schemas.SessionRecord) { r.Failure.Op = schemas.OpSuspend }, time.Second, false},
		"it is to be started": {func(r *schemas.SessionRecord) {
			r.OnResume, r.Failure.Cause = schemas.ResumeFresh, schemas.CauseDamaged
		}, time.Second, false},
		"it is damaged, and kept": {func(r *schemas.SessionRecord) { r.Failure.Cause = schemas.CauseDamaged }, time.Second, true},
	} {
		err := r.tooSoon(v(c.change), morning.Add(c.after))
		if (err != nil) != c.want || err != nil && !strings.Contains(schemas.HintOf(err), "waits until 2026-03-02T") {
			t.Errorf("%s: %v, %q", what, err, schemas.HintOf(err))
		}
	}
}
