package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
)

// client talks to a running Diapause.
type client struct {
	url, creds, data string
	timeout          time.Duration
}

// connect finds the server: what was asked for, or the local one.
func (c *client) connect(ctx context.Context) (*events.API, error) {
	o, err := c.options("cli")
	if err != nil {
		return nil, err
	}
	api, err := events.DialAPI(ctx, o)
	if err != nil {
		return nil, err
	}
	return api, nil
}

// options says where the server is, and who asks: part is what this program is used as.
func (c *client) options(part string) (o events.Options, err error) {
	url, creds := c.url, c.creds
	up, err := datadir.Locate(c.data)
	if url != "" && (url == up.URL || url == up.PublicURL) {
		url, creds = up.URL, cmp.Or(creds, up.ClientCreds)
	}
	if url == "" {
		if err != nil {
			up.URL = surroundings(insideFile).URL // where activity may be published
		}
		if up.URL == "" {
			return o, err
		}
		url, creds = up.URL, cmp.Or(creds, up.ClientCreds)
	}
	by := part + ":" + userName()
	return events.Options{URL: url, Creds: creds, By: by, NATS: []nats.Option{nats.Name("diapause " + by)}}, nil
}

// who names the person at the command line, for the log.
func who() string { return "cli:" + userName() }

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "uid " + fmt.Sprint(os.Getuid())
}

// slack is how much longer the client waits than it lets the server take.
const slack = 10 * time.Second

// call asks the API and decodes the answer into out.
func (c *client) call(ctx context.Context, verb string, req schemas.Request, out any) error {
	api, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer api.Close()
	return c.callOn(ctx, api, verb, req, out)
}

func (c *client) callOn(ctx context.Context, api *events.API, verb string, req schemas.Request, out any) error {
	wait := c.timeout
	if wait <= 0 {
		wait = 2 * time.Minute
	}
	req.Wait = schemas.Duration(wait)
	stop := showProgress(api.Conn(), verb, req)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, wait+slack)
	defer cancel()
	err := api.Ask(events.WithTrace(ctx, os.Getenv("TRACEPARENT")), verb, req, out)
	switch {
	case errors.Is(err, events.ErrDenied):
		return &schemas.APIError{
			Code: schemas.CodeFailed, Reason: schemas.ReasonDenied, Session: req.Name, Text: err.Error(),
			Hint: "name a file of credentials that may with --creds or DIAPAUSE_CREDS, or, for a `diapause up` of this machine, its data directory with --data or DIAPAUSE_DATA in place of --url",
		}
	case errors.Is(err, context.Canceled):
		return schemas.WithHint(errInterrupted, "what was asked for goes on, see `diapause show`")
	}
	return err
}
