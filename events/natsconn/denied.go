package natsconn

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/diapause/diapause/schemas"
	"github.com/nats-io/nats.go"
)

// quoted finds the subject in the server's complaint, which has it nowhere else.
var quoted = regexp.MustCompile(`"([^"]+)"`)

// DeniedSubject gives the subject that the server doesn't let a client publish to or
// subscribe to, if that is what err says.
func DeniedSubject(err error) (subject string, denied bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", false
	}
	if m := quoted.FindStringSubmatch(err.Error()); m != nil {
		return m[1], true
	}
	return "", true
}

// UserOf is the user that a file of credentials is of: files are named after their user.
// "" if the name can't be that of one.
func UserOf(file string) string {
	if file == "" {
		return ""
	}
	name := filepath.Base(file)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	if !schemas.ValidToken(name) {
		return ""
	}
	return name
}
