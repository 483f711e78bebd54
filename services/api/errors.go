package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/events/cas"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// coded gives an error the code that the client acts on.
func coded(err error) *schemas.APIError {
	var e *schemas.APIError
	var unread *statekv.ReadError
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, statekv.ErrNoSession):
		return &schemas.APIError{Code: schemas.CodeNoSession, Text: err.Error()}
	case errors.Is(err, session.ErrIllegal):
		return schemas.StateError(schemas.ReasonWrongState, "%v", err)
	case errors.Is(err, statekv.ErrConflict):
		return schemas.StateError(schemas.ReasonConflict, "%v", err).WithHint("try again")
	case errors.Is(err, context.Canceled):
		return schemas.FailedError(schemas.ReasonStopping, "Diapause is being stopped").WithHint("what was asked for goes on when it is back; see `diapause show`")
	case errors.Is(err, context.DeadlineExceeded):
		return timeout("the request takes longer than its time limit").WithHint("what was asked for goes on; see `diapause show`")
	case errors.Is(err, cas.ErrUnknown), errors.Is(err, statekv.ErrUnknown): // they end with the request's time alone
		return timeout("the time limit ended before NATS confirmed the change").WithHint("it may have been made: see `diapause show`, then ask again")
	case errors.As(err, &unread):
		return schemas.FailedError(schemas.ReasonUnread, "%v", err)
	}
	return &schemas.APIError{Code: schemas.CodeFailed, Text: err.Error()}
}

func timeout(text string) *schemas.APIError {
	return &schemas.APIError{Code: schemas.CodeTimeout, Text: text}
}

// encodeError gives an error the headers that NATS knows for it. Clients of before hints
// read these alone, so that they hold the hint as well; the payload has each part by name.
func encodeError(e *schemas.APIError) *nats.Msg {
	data, err := json.Marshal(e)
	if err != nil {
		data = nil // of strings alone: it can't be
	}
	text := e.Text
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	line := strings.Join(strings.Fields(text), " ") // a header is one line
	return &nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {e.Code}, micro.ErrorHeader: {line}}, Data: data}
}

// reasonIn tells why a verb is refused for a session in a state.
func reasonIn(s schemas.State) schemas.Reason {
	switch s {
	case schemas.Exited:
		return schemas.ReasonExited
	case schemas.Failed:
		return schemas.ReasonFailed
	case schemas.Starting, schemas.Suspending, schemas.Resuming:
		return schemas.ReasonBusy
	}
	return schemas.ReasonWrongState
}

// reasonAfter tells what became of a session in the place of what was asked for.
func reasonAfter(s schemas.State) schemas.Reason {
	switch s {
	case schemas.Exited:
		return schemas.ReasonExited
	case schemas.Failed:
		return schemas.ReasonFailed
	case schemas.Deleted:
		return schemas.ReasonDeleted
	}
	return schemas.ReasonUndone
}

// about says which session an error is about, if it doesn't say so itself.
func about(err error, session string) error {
	e := coded(err)
	if e.Session != "" {
		return e
	}
	copied := *e
	copied.Session = session
	return &copied
}
