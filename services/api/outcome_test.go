package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// What a resume that didn't work is answered with says whether the session's state was in
// the way, or something failed.
func TestResumeOutcomes(t *testing.T) {
	for kind, want := range map[string]string{
		"refused": schemas.CodeFailed, "transient": schemas.CodeFailed, schemas.FailureTaken: schemas.CodeState, "": schemas.CodeState,
	} {
		asked := statekv.Versioned{SessionRecord: schemas.SessionRecord{Version: 3, State: schemas.Resuming}}
		got := statekv.Versioned{SessionRecord: schemas.SessionRecord{Version: 4, State: schemas.Suspended}}
		if kind != "" {
			got.Failure = &schemas.Failure{Op: schemas.OpResume, Kind: kind, Text: "why"}
		}
		o, err := (&sessions{}).untilRunning(asked)(got)
		var answer *schemas.APIError
		if o != done || !errors.As(err, &answer) || answer.Code != want {
			t.Errorf("%q: %v, %v; want the code %s", kind, o, err, want)
		}
	}
}

// Who waits in vain for a session that is looked at after a replacement hears what for, and
// until when.
func TestTimeoutSaysWhatIsUnderway(t *testing.T) {
	v := statekv.Versioned{SessionRecord: schemas.SessionRecord{
		Tenant: "default", Session: "web", State: schemas.Running, Since: morning, Head: &schemas.Head{Name: "a/1-5"},
		Op: &schemas.Op{Kind: schemas.OpProve, Fallback: &schemas.Head{Name: "a/4-22"}, WithinMS: time.Minute.Milliseconds()},
	}}
	want := "session web: snapshot 1-5 took its place and has until 2026-03-02T08:01:00Z (1m0s again after a restart of its host's Diapause) to get well, else snapshot 4-22 comes back; what was asked for has not started"
	var answer *schemas.APIError
	if err := stillBusy(v, context.DeadlineExceeded); !errors.As(err, &answer) || answer.Code != schemas.CodeTimeout || answer.Text != want {
		t.Errorf("%v", err)
	}
	if err := stillBusy(v, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if got := schemas.ViewOf(v.SessionRecord).Underway; !strings.HasPrefix(got, "snapshot 1-5 took its place") {
		t.Errorf("shown as %q", got)
	}
	v.Op = nil
	if err := stillBusy(v, context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// What is advised for a session that failed can be done.
func TestWayOn(t *testing.T) {
	v := statekv.Versioned{SessionRecord: schemas.SessionRecord{Tenant: "default", Session: "web", State: schemas.Failed}}
	if got := wayOn(v); !strings.Contains(got, "resume --clean web") {
		t.Errorf("without a snapshot: %s", got)
	}
	v.Head = &schemas.Head{Name: "a/1-5"}
	if got := wayOn(v); strings.Contains(got, "--clean") || !strings.Contains(got, "resume web") {
		t.Errorf("with one: %s", got)
	}
}
