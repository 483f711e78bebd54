package docker

import (
	"context"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
)

// The labels of what the driver makes.
const (
	labelHost    = "diapause.host"         // the instance
	labelUID     = "diapause.uid"          // of the session
	labelSession = "diapause.made-for"     // its name, for people
	labelFor     = "diapause.restored-for" // the uid, on a container that was there before the session and was made anew
	labelAdopt   = "diapause.session"      // of a container that wants to become a session: [tenant/]id
	labelClass   = "diapause.class"        // likewise, the session's class
	minimumAPI   = "1.41"                  // Docker 20.10
	imagePrefix  = "diapause.local/made/"  // of names of images that the driver makes
)

// ownLabels are those that the driver gives, and no part of a container's configuration.
var ownLabels = []string{labelHost, labelUID, labelSession, labelFor}

// labelRemove has a container that becomes a session by its label removed when it is
// suspended, if it is "true".
const labelRemove = "diapause.remove"

// adoption finds the containers that ask by their labels to become sessions.
type adoption struct {
	engine *engine
	notes  *notes
	claims *claims
}

// offers delivers the containers that run, or begin to, with the label
// diapause.session, and are no session yet, until ctx ends; the channel is closed then.
func (a *adoption) offers(ctx context.Context) <-chan driver.Offer {
	out := make(chan driver.Offer)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			a.offerAll(ctx, out)
			select {
			case <-time.After(watchPause):
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func (a *adoption) offerAll(ctx context.Context, out chan<- driver.Offer) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begun := a.engine.Events(ctx, client.EventsListOptions{
		Filters: client.Filters{}.Add("type", string(events.ContainerEventType)).Add("event", string(events.ActionStart)).Add("label", labelAdopt),
	})
	for {
		all, err := a.engine.ContainerList(ctx, client.ContainerListOptions{Filters: client.Filters{}.Add("label", labelAdopt)})
		if err != nil {
			return
		}
		for _, c := range all.Items {
			if a.offer(ctx, c, out) != nil {
				return
			}
		}
		select {
		case <-begun.Messages:
		case <-begun.Err:
			return
		}
	}
}

// offer delivers a container unless it is a session already, here or of another driver.
func (a *adoption) offer(ctx context.Context, c container.Summary, out chan<- driver.Offer) error {
	all, err := a.notes.all()
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.claims(c.ID, c.Labels) {
			return nil
		}
	}
	if c.Labels[labelUID] != "" || len(c.Names) == 0 {
		return nil
	}
	if by, _, err := a.claims.claimed(ctx, c.ID, c.Labels); err == nil && by != nil {
		return nil // what can't be told is told to whoever tries to take it
	}
	o := driver.Offer{
		Name: strings.TrimPrefix(c.Names[0], "/"), Session: c.Labels[labelAdopt], Asks: "its label " + labelAdopt,
		Run: *dockerspec.Request(schemas.RunRequest{Class: c.Labels[labelClass]}, dockerspec.Options{Container: c.ID, Remove: c.Labels[labelRemove] == "true"}),
	}
	o.Run.Program = o.Name
	select {
	case out <- o:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// with adds labels to others, which stay as they are.
func with(labels, more map[string]string) map[string]string {
	for k, v := range more {
		if _, there := labels[k]; !there {
			labels[k] = v
		}
	}
	return labels
}
