package embedded

import (
	"strings"

	"github.com/diapause/diapause/schemas"
)

// Know has activity without credentials be dropped, and not stored, if known says that there is no session of
// its name. known is called by many goroutines at once, for each message. Until Know is called all is stored.
func (s *Server) Know(known func(schemas.Name) bool) { s.known.Store(&known) }

// divert leads a message without credentials away from the streams, if it is about no session that is known.
func (s *Server) divert(subject string) (to string) {
	known := s.known.Load()
	about, isActivity := strings.CutPrefix(subject, schemas.SubjectActivity+".")
	if known == nil || !isActivity {
		return ""
	}
	tenant, rest, more := strings.Cut(about, ".")
	session, _, _ := strings.Cut(rest, ".")
	if !more || (*known)(schemas.Name{Tenant: schemas.Tenant(tenant), Session: schemas.SessionID(session)}) {
		return ""
	}
	return unknownSubject
}
