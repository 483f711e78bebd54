package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
)

// client talks to a running Diapause.
type client struct {
	url, creds, data string
	timeout          time.Duration
	broken           chan error // why no answer will come
}

// connect finds the server: what was asked for, or the local one.
func (c *client) connect(ctx context.Context) (*nats.Conn, error) {
	url, creds := c.url, c.creds
	up, err := datadir.Locate(c.data)
	if url == up.URL {
		creds = cmp.Or(creds, up.ClientCreds)
	}
	if url == "" {
		if err != nil {
			up.URL = surroundings(insideFile).URL // where activity may be published
		}
		if up.URL == "" {
			return nil, err
		}
		url, creds = up.URL, cmp.Or(creds, up.ClientCreds)
	}
	c.broken = make(chan error, 1)
	say := func(err error) {
		select {
		case c.broken <- err:
		default: // the first says it all
		}
	}
	return natsconn.Connect(ctx, url, creds, "diapause "+who(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				say(fmt.Errorf("%w (%w)", errDenied, err))
			}
		}),
		nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
			if !nc.IsClosed() {
				say(errDisconnected)
			}
		}))
}

// Why nobody answers whoever has no credentials, or whoever's server is gone: an
// answer finds only the connection that the question came by.
var (
	errDenied       = errors.New("the server doesn't let this client ask: name a file of credentials that may with --creds or DIAPAUSE_CREDS, or, for a `diapause up` of this machine, its data directory with --data or DIAPAUSE_DATA in place of --url")
	errNobody       = errors.New("is `diapause up` still starting?")
	errDisconnected = errors.New("the connection to Diapause was lost; what was begun goes on when it is up again, see `diapause show`")
)

// unlessBroken is a context that ends when no answer will come any more.
func (c *client) unlessBroken(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case err := <-c.broken:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// who names the person at the command line, for the log.
func who() string {
	name := "uid " + fmt.Sprint(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return "cli:" + name
}

// slack is how much longer the client waits than it lets the server take.
const slack = 10 * time.Second

// call asks the API and decodes the answer into out.
func (c *client) call(ctx context.Context, verb string, req schemas.Request, out any) error {
	nc, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	return c.callOn(ctx, nc, verb, req, out)
}

func (c *client) callOn(ctx context.Context, nc *nats.Conn, verb string, req schemas.Request, out any) error {
	wait := c.timeout
	if wait <= 0 {
		wait = 2 * time.Minute
	}
	req.Actor, req.Wait = who(), schemas.Duration(wait)
	data, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	stop := showProgress(nc, req.Name)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, wait+slack)
	defer cancel()
	ctx, stopAsking := c.unlessBroken(ctx)
	defer stopAsking()
	msg, err := nc.RequestWithContext(ctx, schemas.SubjectAPI+"."+verb, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("nobody answers %q at %s: %w", verb, nc.ConnectedUrl(), errNobody)
	case errors.Is(context.Cause(ctx), errDenied), errors.Is(context.Cause(ctx), errDisconnected):
		return context.Cause(ctx)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w; what was asked for goes on, see `diapause show`", errInterrupted)
	case err != nil:
		return fmt.Errorf("ask %q: %w", verb, err)
	}
	return events.ReadAnswer(msg, out)
}

// showProgress prints the steps of a session's operation on a terminal, and
// nothing elsewhere.
func showProgress(nc *nats.Conn, name string) (stop func()) {
	n, err := schemas.ParseName(name)
	if err != nil || !term.IsTerminal(int(os.Stderr.Fd())) {
		return func() {}
	}
	shown := false
	sub, err := nc.Subscribe(schemas.SubjectProgress+"."+n.Key(), func(msg *nats.Msg) {
		var p schemas.Progress
		if json.Unmarshal(msg.Data, &p) != nil {
			return
		}
		shown = true
		fmt.Fprintf(os.Stderr, "\r\033[K%s %s: %s", p.Kind, n, stepOf(p))
	})
	if err != nil {
		return func() {}
	}
	return func() {
		_ = sub.Drain() // the connection closes next
		if shown {
			fmt.Fprint(os.Stderr, "\r\033[K")
		}
	}
}

// stepOf is how far an operation is, for a person.
func stepOf(p schemas.Progress) string {
	switch {
	case p.Of > 0:
		return fmt.Sprintf("%s %s of %s", p.Stage, size(min(p.Bytes, p.Of)), size(p.Of))
	case p.Bytes > 0:
		return p.Stage + " " + size(p.Bytes)
	}
	return p.Stage
}
