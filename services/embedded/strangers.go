package embedded

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/events/strangers"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gate"
)

// Know has activity without credentials be dropped, and not stored, if known says that there is no session of
// its name; missed is told of which session some was dropped, since more is stored of who said it than may be. Both are called
// by many goroutines at once. Until Know is called all is stored that may be.
func (s *Server) Know(known func(schemas.Name) bool, missed func(schemas.Name)) {
	s.known.Store(&sessions{known, missed})
}

// sessions is what is known of sessions.
type sessions struct {
	known  func(schemas.Name) bool
	missed func(schemas.Name)
}

// change makes a message without credentials what the streams may be given: on a subject that says who
// published it, so that it takes the place of no other's; with the headers that activity has, and no others,
// which the server may heed; and for no longer than it is of use. What is about no session that is known, or more
// than a user may have stored, goes where no one listens.
func (s *Server) change(m *gate.Message) {
	about, isActivity := strings.CutPrefix(m.Subject, schemas.SubjectActivity+".")
	if !isActivity {
		return // the server refuses it
	}
	known, name := s.known.Load(), nameIn(about)
	if known != nil && !known.known(name) {
		*m = gate.Message{Subject: unknownSubject}
		return
	}
	by := markOf(m.By)
	if strings.HasSuffix(m.Subject, "."+schemas.FromInside) {
		by += schemas.FromInside // a session's programs take no room from others of the user who runs it
	}
	m.Subject = schemas.Marked(m.Subject, markOf(m.By))
	header, kept := strangers.Stored(m.Subject, m.Header, m.Data)
	if m.Header = strangers.Encode(header); len(m.Header)+len(m.Data) > edgePayload {
		kept = strangers.Untimed(header) // the server ends connections for larger ones
		m.Header = strangers.Encode(header)
	}
	if !s.ledger.Take(by, m.Subject, kept, time.Now()) {
		*m = gate.Message{Subject: unknownSubject}
		if known != nil {
			known.missed(name) // of this session alone something wasn't heard
		} else {
			s.log.drop()
		}
	}
}

// nameIn gives the session that a subject of activity is about.
func nameIn(subject string) schemas.Name {
	tenant, rest, _ := strings.Cut(subject, ".")
	session, _, _ := strings.Cut(rest, ".")
	return schemas.Name{Tenant: schemas.Tenant(tenant), Session: schemas.SessionID(session)}
}

// markOf gives the mark of one who sends: a user's, or one made of the address of another machine.
func markOf(by string) string {
	if uid, err := strconv.ParseUint(by, 10, 32); err == nil {
		return schemas.FromUser(uint32(uid))
	}
	if at, err := netip.ParseAddr(by); err == nil {
		return schemas.FromAddress(at)
	}
	return schemas.FromUser(uint32(gate.Unknown))
}
