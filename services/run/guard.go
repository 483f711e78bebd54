package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
	"github.com/nats-io/nats.go"
)

// errForbidden ends a part whose user may not do what the part does.
var errForbidden = errors.New("the NATS server forbids what this part has to do")

// guard ends a part that starts as a user who may not do what it does: the server says so
// beside the calls, which would only time out.
type guard struct {
	part, user string // what it is, and who may be it
	creds      string
	log        *slog.Logger
	cancel     context.CancelCauseFunc
	started    atomic.Bool

	mu   sync.Mutex
	said string // the last complaint, and when
	at   time.Time
}

// complainEvery is how often the same complaint is logged.
const complainEvery = time.Minute

// news reports whether a complaint has to be logged.
func (g *guard) news(complaint string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if complaint == g.said && time.Since(g.at) < complainEvery {
		return false
	}
	g.said, g.at = complaint, time.Now()
	return true
}

// guarded gives the context of a part that starts.
func guarded(ctx context.Context, part, user, creds string, log *slog.Logger) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &guard{part: part, user: user, creds: creds, log: log, cancel: cancel}
}

// option has the guard hear what the server refuses.
func (g *guard) option() nats.Option {
	return nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
		if aboutCallers(err) {
			g.log.Warn("the NATS server's configuration doesn't let callers prove who they are: write it again with `diapause nats-config`", "err", err)
			return
		}
		if errors.Is(err, nats.ErrPermissionViolation) && !g.started.Load() {
			g.forbidden(err)
			return
		}
		subject := ""
		if sub != nil {
			subject = sub.Subject
		}
		if !g.news(err.Error() + subject) {
			return
		}
		g.log.Error("the NATS server or the connection to it complains", "err", err, "subject", subject)
	})
}

// aboutCallers reports whether a refusal is about who asks, without which a part works.
func aboutCallers(err error) bool {
	denied, _ := natsconn.DeniedSubject(err)
	return strings.HasPrefix(denied, schemas.SubjectAs+".") || strings.HasPrefix(denied, schemas.SubjectBearer+".")
}

// forbidden ends the part.
func (g *guard) forbidden(err error) {
	g.cancel(schemas.WithHint(fmt.Errorf("%w: %s needs the NATS user %s, which %s isn't (%w)", errForbidden, g.part, g.user, orNone(g.creds), err),
		"give its file with --creds"))
}

// hearWait is how long a server may take to have answered what it was sent.
const hearWait = 10 * time.Second

// heard ends the part if the server has refused something by now. The connection hears of a refusal before it calls the
// handler above, which may be too late for a part that is ready at once.
func (g *guard) heard(nc *nats.Conn) error {
	if err := nc.FlushTimeout(hearWait); err != nil {
		return nil // the connection is lost; it is made again
	}
	if err := nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) && !aboutCallers(err) {
		g.forbidden(err)
		return errForbidden
	}
	return nil
}

func orNone(creds string) string {
	if creds == "" {
		return "a client without credentials"
	}
	return creds
}

// through marks the part as started: what is refused later is logged.
func (g *guard) through() { g.started.Store(true) }

// why gives the reason that the guard ended the part for, or else its error.
func (g *guard) why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errForbidden) {
		return cause
	}
	g.cancel(nil)
	return err
}
