package api

import (
	"errors"
	"testing"

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
		o, err := (&Server{}).untilRunning(asked)(got)
		var answer *schemas.APIError
		if o != done || !errors.As(err, &answer) || answer.Code != want {
			t.Errorf("%q: %v, %v; want the code %s", kind, o, err, want)
		}
	}
}
