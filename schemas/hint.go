package schemas

import (
	"errors"
	"fmt"
)

// hinted is an error that says what to do about it.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// WithHint adds to an error what to do about it. Its text stays the same: a client shows
// the hint on its own line.
func WithHint(err error, format string, args ...any) error {
	return hinted{err, fmt.Sprintf(format, args...)}
}

// HintOf gives what to do about an error, by WithHint or of an APIError; "" if it doesn't
// say.
func HintOf(err error) string {
	if h := (hinted{}); errors.As(err, &h) {
		return h.hint
	}
	if e := (*APIError)(nil); errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
