package api

import (
	"crypto/rand"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// newUID makes the uid of a new session, which names its images, its cgroups and
// its fence: of 110 random bits, and such that no two differ in case alone.
func newUID() schemas.UID { return schemas.UID(strings.ToLower(rand.Text()[:22])) }
