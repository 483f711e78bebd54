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
			return nil, err
		}
		url, creds = up.URL, cmp.Or(creds, up.ClientCreds)
	}
	api, err := events.DialAPI(ctx, events.Options{URL: url, Creds: creds, By: who(), NATS: []nats.Option{nats.Name("diapause " + who())}})
	if err != nil {
		return nil, err
	}
	return api, nil
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
