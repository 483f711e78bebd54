package run

import (
	"fmt"

	"github.com/diapause/diapause/schemas"
)

// usagef is the error of a config that can't be used as it is.
func usagef(format string, args ...any) error {
	return &schemas.APIError{Code: schemas.CodeUsage, Text: fmt.Sprintf(format, args...)}
}

// misuse makes an error one of wrong use, with what to do about it.
func misuse(err error) error {
	return &schemas.APIError{Code: schemas.CodeUsage, Text: err.Error(), Hint: schemas.HintOf(err)}
}
