package run

import (
	"fmt"

	"github.com/diapause/diapause/schemas"
)

// usagef is the error of a config that can't be used as it is.
func usagef(format string, args ...any) error {
	return &schemas.APIError{Code: schemas.CodeUsage, Text: fmt.Sprintf(format, args...)}
}
