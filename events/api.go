package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
)

// What a caller can act on besides other errors of the API; match with errors.Is.
var (
	// ErrDenied: the credentials don't allow to ask.
	ErrDenied = &schemas.APIError{
		Code: schemas.CodeFailed, Reason: schemas.ReasonDenied,
		Text: "the NATS server doesn't let this client ask", Hint: "use credentials that may (Options.Creds)",
	}
	// ErrNoServer: no Diapause answers on this server.
	ErrNoServer = &schemas.APIError{
		Code: schemas.CodeFailed, Reason: schemas.ReasonNoServer,
		Text: "no Diapause answers on this NATS server", Hint: "is `diapause up` still starting?",
	}
	// ErrLost: the connection was lost while an answer was due.
	ErrLost = &schemas.APIError{
		Code: schemas.CodeFailed, Reason: schemas.ReasonStopping,
		Text: "the connection to Diapause was lost", Hint: "what was asked for goes on when it is back; see `diapause show`",
	}
)

// askLimit is how long an answer may take if the context has no deadline.
const askLimit = 2 * time.Minute

// API asks the verbs of a Diapause. It may be used from many goroutines at once.
//
// It asks on a subject of its own user, which proves to the server who asks. Where the NATS
// server doesn't allow that, or the Diapause is one that doesn't know it, it asks on the
// subject that is everybody's.
type API struct {
	nc   *nats.Conn
	own  bool // nc is closed with it
	user string
	note string
	// unproved is 1 more than the number of reconnects at which the user's own subject was
	// found not to work: it isn't tried again on that connection.
	unproved atomic.Uint64
	pending  pending
}

// DialAPI makes an API with a connection of its own, which has to be there now. Of o it
// uses URL, Creds, By, User and NATS. All calls end with ErrLost once the connection
// did: it is for programs that ask and end, as the server may come back elsewhere. Services use Connect.
func DialAPI(ctx context.Context, o Options) (*API, error) {
	a := newAPI(nil, o)
	opts := append([]nats.Option{
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { a.pending.refused(err) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
			if !nc.IsClosed() {
				a.pending.end(ErrLost)
			}
		}),
	}, o.NATS...)
	nc, err := natsconn.Connect(ctx, cmp.Or(o.URL, nats.DefaultURL), o.Creds, a.note, opts...)
	if err != nil {
		return nil, err
	}
	a.nc, a.own = nc, true
	return a, nil
}

// NewAPI makes an API that uses a connection of the service's own, and leaves it open. Of
// o it uses By, and User or, for its name, Creds. The connection's error handler is told of
// all that it was told of before.
func NewAPI(nc *nats.Conn, o Options) *API {
	a := newAPI(nc, o)
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if !a.pending.refused(err) && before != nil { // else it asks in another way
			before(nc, sub, err)
		}
	})
	return a
}

func newAPI(nc *nats.Conn, o Options) *API {
	return &API{
		nc: nc, user: cmp.Or(o.User, natsconn.UserOf(o.Creds)), note: cmp.Or(o.By, filepath.Base(os.Args[0])),
		pending: pending{calls: map[*call]struct{}{}},
	}
}

// Conn is the connection that it asks on.
func (a *API) Conn() *nats.Conn { return a.nc }

// Close closes the connection if it is the API's own.
func (a *API) Close() {
	if a.own {
		a.nc.Close()
	}
}

// Ask asks for a verb and decodes the answer into out. The server gives up after req.Wait;
// by default that is the deadline of ctx, or two minutes. An error of the API is a
// *schemas.APIError.
func (a *API) Ask(ctx context.Context, verb string, req schemas.Request, out any) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askLimit)
		defer cancel()
	}
	end, _ := ctx.Deadline()
	req.Actor = cmp.Or(req.Actor, a.note)
	req.Wait = cmp.Or(req.Wait, schemas.Duration(time.Until(end)))
	data, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	m, err := a.request(ctx, verb, data)
	if err != nil {
		if req.Name == "" {
			return fmt.Errorf("%s: %w", verb, err)
		}
		return fmt.Errorf("%s session %s: %w", verb, req.Name, err)
	}
	return ReadAnswer(m, out)
}

// request asks on the user's own subject and, if nothing takes that, on everybody's.
//
// With a token it asks on the subject of bearers alone: a Diapause that doesn't know that would take the
// request for this user's own.
func (a *API) request(ctx context.Context, verb string, data []byte) (*nats.Msg, error) {
	if _, bearer := ctx.Value(tokenKey{}).(string); bearer {
		return a.exchange(ctx, schemas.SubjectBearer+"."+verb, data)
	}
	connection := a.nc.Stats().Reconnects + 1
	if a.user == "" || a.unproved.Load() == connection {
		return a.exchange(ctx, schemas.SubjectAPI+"."+verb, data)
	}
	m, err := a.exchange(ctx, schemas.SubjectAs+"."+a.user+"."+verb, data)
	if !errors.Is(err, ErrNoServer) && !errors.Is(err, ErrDenied) {
		return m, err
	}
	m, other := a.exchange(ctx, schemas.SubjectAPI+"."+verb, data)
	if other == nil {
		a.unproved.Store(connection)
	}
	if errors.Is(other, ErrDenied) {
		return nil, err
	}
	return m, other
}

// exchange asks on one subject. Nothing was asked if the error is ErrNoServer or ErrDenied.
func (a *API) exchange(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &call{subject: subject, cancel: cancel}
	a.pending.add(c)
	defer a.pending.remove(c)
	if a.own && !a.nc.IsConnected() { // since before this call waits
		return nil, ErrLost
	}
	ask := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	ask.Header.Set(schemas.HeaderTakes, schemas.Gzip)
	if trace, _ := ctx.Value(traceKey{}).(string); trace != "" {
		ask.Header.Set(schemas.HeaderTrace, trace)
	}
	if token, _ := ctx.Value(tokenKey{}).(string); token != "" {
		ask.Header.Set(schemas.HeaderToken, token)
	}
	m, err := a.nc.RequestMsgWithContext(ctx, ask)
	var api *schemas.APIError
	switch {
	case err == nil:
		return m, nil
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded): // the latter: there is no connection now
		return nil, ErrNoServer
	case errors.As(context.Cause(ctx), &api):
		return nil, context.Cause(ctx)
	}
	return nil, err
}

type traceKey struct{}

// WithTrace has requests that are made with a context say of which trace they are a part: traceparent is
// the value of that header (https://www.w3.org/TR/trace-context/#traceparent-header). The operation that a request begins
// is a part of it, too. What is no such value is ignored.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	if !schemas.ValidTrace(traceparent) {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceparent)
}

type tokenKey struct{}

// WithToken has requests that are made with a context be those of the bearer of a token: the API finds out who
// that is and what it may ask for. An empty one is no one's.
func WithToken(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// call is one request that waits for its answer.
type call struct {
	subject string
	cancel  context.CancelCauseFunc
}

// pending has the calls that wait, to end those to which no answer will come.
type pending struct {
	mu    sync.Mutex
	calls map[*call]struct{}
	ended error // why no later call is answered either; nil while they are
}

func (p *pending) add(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[c] = struct{}{}
	if p.ended != nil {
		c.cancel(p.ended)
	}
}

// end ends all calls, those to come included.
func (p *pending) end(err error) {
	p.mu.Lock()
	p.ended = err
	p.mu.Unlock()
	p.fail("", err)
}

func (p *pending) remove(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, c)
}

// fail ends the calls on a subject, all of them if it is empty.
func (p *pending) fail(subject string, err error) (some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.calls {
		if subject == "" || c.subject == subject {
			c.cancel(err)
			some = true
		}
	}
	return some
}

// refused takes an error of the connection, and reports whether that was about calls alone.
func (p *pending) refused(err error) bool {
	subject, denied := natsconn.DeniedSubject(err)
	switch {
	case !denied:
		return false
	case strings.HasPrefix(subject, nats.InboxPrefix): // no answer could be heard
		p.fail("", fmt.Errorf("%w (%w)", ErrDenied, err))
		return false
	}
	return p.fail(subject, fmt.Errorf("%w (%w)", ErrDenied, err)) && strings.HasPrefix(subject, schemas.SubjectAs+".")
}
