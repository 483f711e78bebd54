package ingress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/diapause/diapause/schemas"
)

// Ask is a request for a port, as an Authorizer sees it.
type Ask struct {
	Target Target
	Class  Class
	From   netip.AddrPort
	HTTP   *http.Request // nil for a TCP connection; not to be changed
}

// Grant is the right to reach a port.
type Grant struct {
	Caller string // for people: who it is
	// Strip removes from the headers of a request to the session the credentials that the grant was given for;
	// nil if there are none.
	Strip func(http.Header)
	// Anyone says that no credentials were needed, nor given.
	Anyone bool
}

// Authorizer says who may reach a port. It is asked before anything is resumed and before a lease begins, for each
// request and each TCP connection by itself, from many goroutines at once. A refusal is a *schemas.APIError with the
// reason denied; any other error says that it couldn't be found out, which refuses, too. It must give the same
// refusal for a session that isn't there and for one that the caller may not know of.
type Authorizer interface {
	Authorize(ctx context.Context, a Ask) (Grant, error)
}

// Waker looks at sessions and has them run. Errors are of the API (*schemas.APIError); others may pass by themselves.
// Its methods are called from many goroutines at once.
type Waker interface {
	// Look gives a session, by its uid where the target has that. Looking is no use, and resumes nothing.
	Look(ctx context.Context, t Target) (schemas.View, error)
	// Ensure has a session run, which counts as use, and waits until it does. Why names who asked first. It is
	// idempotent; the resume goes on when ctx ends.
	Ensure(ctx context.Context, n schemas.Name, why Why) (schemas.View, error)
	// Follow calls step with the steps of a session's operations, from another goroutine, until stop is called.
	// It may miss some.
	Follow(n schemas.Name, step func(schemas.Progress)) (stop func())
}

// Leaser says what sessions are used for. It doesn't wait, and can't fail: what it says is repeated.
type Leaser interface {
	// Hold keeps a session from being suspended for idleness until release is called, which may be more than
	// once. With fresh a grace begins at the start, and another at the end of a long hold.
	Hold(n schemas.Name, why Why, fresh bool) (release func())
}

// ErrRefused: nothing listens at the port of a session that runs.
var ErrRefused = errors.New("nothing listens at the port")

// Dialer connects to ports inside sessions that run.
type Dialer interface {
	// Dial connects to a port, wherever the session runs. The error is ErrRefused if nothing listens there; any
	// other means that the session isn't to be reached as v says: it may have been suspended or moved since. The
	// context ends the dial, not the connection. That is no lease. It has CloseWrite, and Read gives io.EOF only
	// where the session has sent all.
	Dial(ctx context.Context, v schemas.View, port uint16) (net.Conn, error)
}

// Why is what a session is resumed for, as explain and history show it.
type Why struct {
	Class  Class
	Method string // "" of a TCP connection
	Path   string // without the query, which may have secrets
	Port   uint16
	Caller string
}

// maxPath is how much of a path a Why shows, in bytes.
const maxPath = 80

// String gives one line of bounded length, without control characters.
func (w Why) String() string {
	what := "connection"
	if w.Method != "" {
		path := w.Path
		if len(path) > maxPath {
			path = path[:maxPath] + "…"
		}
		what = w.Method + " " + path
	}
	return schemas.Shown(fmt.Sprintf("%s to port %d (%s by %s)", what, w.Port, w.Class, w.Caller))
}
