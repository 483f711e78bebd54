package robustness_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// The judge goes by codes and reasons, never by what an error says, and takes only that for
// refused which surely had no effect.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		verb string
		err  error
		want string
	}{
		{opRun, nats.ErrNoResponders, refused},
		{opRun, nats.ErrTimeout, unknown},
		{opKill, errors.New("session s exists and is running"), unknown},
		{opRun, schemas.StateError(schemas.ReasonExists, "x"), exists},
		{opRun, schemas.StateError(schemas.ReasonConflict, "x"), refused},
		{opRun, schemas.StateError(schemas.ReasonBusy, "x"), refused},
		{opRun, schemas.FailedError("", "exists and is running"), unknown},
		{opShow, &schemas.APIError{Code: schemas.CodeNoSession}, gone},
		{opRemove, &schemas.APIError{Code: schemas.CodeTimeout}, unknown},
		{opSuspend, &schemas.APIError{Code: schemas.CodeTimeout}, refused},
		{opClean, schemas.StateError(schemas.ReasonWrongState, "x"), refused},
		{opRollback, schemas.StateError(schemas.ReasonRunsOn, "x"), refused},
		{opRollback, schemas.StateError(schemas.ReasonUndone, "x"), unknown},
		{opRollback, schemas.StateError(schemas.ReasonExited, "x"), unknown},
		{opKill, schemas.StateError(schemas.ReasonRunsOn, "x"), unknown},
		{opRollback, schemas.FailedError(schemas.ReasonUnread, "x"), refused},
		{opRollback, schemas.FailedError(schemas.ReasonStopping, "x"), unknown},
	} {
		if got := judge(input{Verb: c.verb}, c.err); got != c.want {
			t.Errorf("%s: %v is judged %s, want %s", c.verb, c.err, got, c.want)
		}
	}
}
