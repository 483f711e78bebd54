package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The codes of errors that the API answers, and the exit code that the client
// gives each. The list is stable.
const (
	CodeFailed    = "failed"     // 1
	CodeUsage     = "usage"      // 2
	CodeNoSession = "no_session" // 3
	CodeState     = "state"      // 4: refused because of the session's state
	CodeTimeout   = "timeout"    // 5
)

// Reason tells errors of one code apart, where a client can act on the difference.
type Reason string

// The reasons of errors. The list is stable but may grow: a client that doesn't know a
// reason goes by the code. Nothing was changed where the reason is busy, conflict, exists,
// wrong_state, quota, no_room, no_host or unread.
const (
	ReasonBusy        Reason = "busy"           // state: another operation is under way; ask again when it is over
	ReasonConflict    Reason = "conflict"       // state: another's change came first; look, and ask again
	ReasonExists      Reason = "exists"         // state: the name is taken
	ReasonExited      Reason = "exited"         // state: the session ended by itself
	ReasonFailed      Reason = "failed"         // state: the session failed
	ReasonWrongState  Reason = "wrong_state"    // state: the verb doesn't apply to a session in its state
	ReasonNoSnapshot  Reason = "no_snapshot"    // state: there is no snapshot, or not that one
	ReasonNoHistory   Reason = "no_use_history" // state: what was heard in that time isn't kept
	ReasonInUse       Reason = "in_use"         // state: a session goes on from it
	ReasonRunsOn      Reason = "runs_on"        // state, failed: the session wasn't suspended, and runs on
	ReasonUndone      Reason = "undone"         // state: another request came in between
	ReasonQuota       Reason = "quota"          // state: the tenant's quota is used up
	ReasonNoRoom      Reason = "no_room"        // state: no host has a slot for it
	ReasonHostGone    Reason = "host_gone"      // state, failed: its host isn't there
	ReasonNoHost      Reason = "no_host"        // failed: no host can run it
	ReasonCordoned    Reason = "cordoned"       // state: that host takes no sessions
	ReasonSameHost    Reason = "same_host"      // state: the session is on that host
	ReasonTaken       Reason = "taken"          // state: something else has taken the place that it had
	ReasonFellBack    Reason = "fell_back"      // failed: what took its place wasn't well, so it runs as it was
	ReasonDeleted     Reason = "deleted"        // state: it was deleted meanwhile
	ReasonArchived    Reason = "archived"       // state: it is in the archive, which resume alone takes it out of
	ReasonDenied      Reason = "denied"         // failed: the caller may not ask for that
	ReasonNoToken     Reason = "no_token"       // failed: there is no such token, or it has expired or was revoked
	ReasonNoServer    Reason = "no_server"      // failed: no Diapause answers
	ReasonStopping    Reason = "stopping"       // failed: Diapause is being stopped; ask again when it is back
	ReasonTooLarge    Reason = "too_large"      // failed: the answer is larger than NATS carries
	ReasonTooMany     Reason = "too_many"       // failed: too many such requests are under way; ask again
	ReasonUnread      Reason = "unread"         // failed: the session's record couldn't be read
	ReasonUnreadable  Reason = "unreadable"     // failed: the snapshot can't be used
	ReasonCommandGone Reason = "command_gone"   // state: the session was rolled back or started again, without the command
	ReasonKey         Reason = "key"            // state: a key doesn't allow it, or is the last one
)

// APIError is an error that the API answered.
type APIError struct {
	Code    string
	Reason  Reason // "" if the code says it all
	Text    string // what is wrong
	Hint    string // what to do about it, "" if there is nothing to say
	Detail  string // the technical cause, where Text is a sentence for a person
	Session string // that it is about, "tenant/id", or "id" for the default tenant; "" if it is about none
}

// apiError is an APIError on the wire. Text is the name of Error before hints were told apart.
type apiError struct {
	Code    string `json:"code"`
	Reason  Reason `json:"reason,omitempty"`
	Error   string `json:"error"`
	Hint    string `json:"hint,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Session string `json:"session,omitempty"`
	Text    string `json:"text,omitempty"`
}

func (e *APIError) Error() string { return e.Text }

// WithHint adds what to do about the error.
func (e *APIError) WithHint(format string, args ...any) *APIError {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// MarshalJSON writes the error as documented: code, reason, error, hint, detail, session.
func (e *APIError) MarshalJSON() ([]byte, error) {
	return json.Marshal(apiError{Code: e.Code, Reason: e.Reason, Error: e.Text, Hint: e.Hint, Detail: e.Detail, Session: e.Session})
}

// UnmarshalJSON reads what MarshalJSON writes, and "text" for "error".
func (e *APIError) UnmarshalJSON(data []byte) error {
	var w apiError
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if w.Error == "" {
		w.Error = w.Text
	}
	*e = APIError{Code: w.Code, Reason: w.Reason, Text: w.Error, Hint: w.Hint, Detail: w.Detail, Session: w.Session}
	return nil
}

// UsageError refuses a request that makes no sense.
func UsageError(format string, args ...any) *APIError {
	return &APIError{Code: CodeUsage, Text: fmt.Sprintf(format, args...)}
}

// StateError refuses a request because of the state of what it is about.
func StateError(why Reason, format string, args ...any) *APIError {
	return &APIError{Code: CodeState, Reason: why, Text: fmt.Sprintf(format, args...)}
}

// FailedError says that what was asked for went wrong.
func FailedError(why Reason, format string, args ...any) *APIError {
	return &APIError{Code: CodeFailed, Reason: why, Text: fmt.Sprintf(format, args...)}
}

// CodeOf gives the code of an error of the API; "" if err is another.
func CodeOf(err error) string {
	if e := (*APIError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// ReasonOf gives the reason of an error of the API; "" if it has none, or err is another.
func ReasonOf(err error) Reason {
	if e := (*APIError)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}
