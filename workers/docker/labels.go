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

// The labels that the driver sets and reads.
const (
	labelHost    = "diapause.host"         // the driver's instance
	labelUID     = "diapause.uid"          // of the session
	labelSession = "diapause.made-for"     // its name, for people
	labelFor     = "diapause.restored-for" // the uid, on the new container of an adopted session
	labelAdopt   = "diapause.session"      // asks for a session: [tenant/]id
	labelClass   = "diapause.class"        // the class of that session
	minimumAPI   = "1.41"                  // Docker 20.10
	imagePrefix  = "diapause.local/made/"  // of the names of images that the driver makes
)

// ownLabels are set by the driver, and are no part of a container's configuration.
var ownLabels = []string{labelHost, labelUID, labelSession, labelFor}

// labelRemove, if it is "true", removes an adopted container when it is suspended.
const labelRemove = "diapause.remove"

// adoption finds the containers whose labels ask for a session.
type adoption struct {
	engine *engine
	notes  *notes
	claims *claims
}

// offers implements driver.Offerer. It delivers the containers with the label diapause.session
// that run, or start to, and are no session yet.
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
	started := a.engine.Events(ctx, client.EventsListOptions{
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
		case <-started.Messages:
		case <-started.Err:
			return
		}
	}
}

// offer delivers a container unless it is a session already, of this driver or another one.
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
		return nil // after an error, adopting it says what is wrong
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

// with adds labels unless there is one of that name.
func with(labels, more map[string]string) map[string]string {
	for k, v := range more {
		if _, there := labels[k]; !there {
			labels[k] = v
		}
	}
	return labels
}
