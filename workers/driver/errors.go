package driver

import (
	"errors"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// ErrStale is the answer to an epoch lower than one the driver has seen.
var ErrStale = errors.New("a newer owner has acted on this session")

// ErrNotHere is the answer to a call for a session that isn't on this host.
var ErrNotHere = errors.New("the session is not on this host")

// ErrNoLease is the answer to a call that would let a session run although its host's
// lease has not been renewed in time: another host may have it by now.
var ErrNoLease = errors.New("the host's lease has run out")

// Kind is what a worker can do about an error.
type Kind string

// The kinds of error.
const (
	// Refused: it can't work until something changes; trying again is useless.
	Refused Kind = "refused"
	// Transient: the same call may pass in a moment.
	Transient Kind = "transient"
	// Broken: the session is no longer what it was; the text says what it is.
	Broken Kind = "broken"
	// Taken: another user holds what the session needs to go on (a container's name, a
	// port); like Refused until that is free again.
	Taken Kind = schemas.FailureTaken
	// Unrestorable: a rehearsal showed that the image can't be restored, or not as the
	// session is. The session runs on.
	Unrestorable Kind = schemas.FailureRehearsal
)

// Error is a driver's error with what a worker can do about it. Any other error
// counts as Transient.
type Error struct {
	Kind     Kind
	Text     string    // for a person
	Hint     string    // what to do about it; "" if there is nothing to say
	Blockers []Blocker // of a refused capture
	Err      error     // the cause, if there is one
	Code     string    // of a failure of what the driver uses: the same at the next attempt if that fails alike; "" if unknown
	Engine   bool      // what the driver uses (criu) refused the image, for a reason that lies in the image
	Status   int       // of a command that can't be run: NotFound or NotExecutable
}

// What a shell gives as the status of a command that it can't run.
const (
	NotExecutable = 126
	NotFound      = 127
)

func (e *Error) Error() string {
	s := e.Text
	if len(e.Blockers) > 0 {
		s += ": " + strings.Join(byCause(e.Blockers), "; ")
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += hintSeparator + e.Hint
	}
	return s
}

// hintSeparator is between an error and its hint where both are one text.
const hintSeparator = "; "

// HintOf gives the hint of err, and the text of err without it.
func HintOf(err error) (text, hint string) {
	var e *Error
	if !errors.As(err, &e) || e.Hint == "" {
		return err.Error(), ""
	}
	return strings.TrimSuffix(err.Error(), hintSeparator+e.Hint), e.Hint
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf gives the code of err, "" if it has none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// RefusedByEngine reports whether err says that what the driver uses refused an image.
func RefusedByEngine(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Engine
}

// KindOf gives the kind of err: Transient if it says none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Transient
}
