package docker

import (
	"context"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// Labelled is a running container whose label asks for it to become a session.
type Labelled struct {
	ID, Name string
	Label    string // the label's name
	Session  string // its value, [tenant/]id
	Class    string // "" if no label says it
	Remove   bool   // remove it when it is suspended
}

// labelRemove has a container that becomes a session by its label removed when it is
// suspended, if it is "true".
const labelRemove = "diapause.remove"

// Labelled delivers the containers that run, or begin to, with the label
// diapause.session, and are no session yet, until ctx ends; the channel is closed then.
func (d *Driver) Labelled(ctx context.Context) <-chan Labelled {
	out := make(chan Labelled)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			d.lookForLabels(ctx, out)
			select {
			case <-time.After(watchPause):
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func (d *Driver) lookForLabels(ctx context.Context, out chan<- Labelled) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begun := d.engine.Events(ctx, client.EventsListOptions{
		Filters: client.Filters{}.Add("type", string(events.ContainerEventType)).Add("event", string(events.ActionStart)).Add("label", labelAdopt),
	})
	for {
		all, err := d.engine.ContainerList(ctx, client.ContainerListOptions{Filters: client.Filters{}.Add("label", labelAdopt)})
		if err != nil {
			return
		}
		for _, c := range all.Items {
			if d.offer(ctx, c, out) != nil {
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
func (d *Driver) offer(ctx context.Context, c container.Summary, out chan<- Labelled) error {
	all, err := d.notes.all()
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
	if by, _, err := d.claimed(ctx, c.ID, c.Labels); err == nil && by != nil {
		return nil // what can't be told is told to whoever tries to take it
	}
	l := Labelled{
		ID: c.ID, Name: strings.TrimPrefix(c.Names[0], "/"), Label: labelAdopt, Session: c.Labels[labelAdopt], Class: c.Labels[labelClass], Remove: c.Labels[labelRemove] == "true",
	}
	select {
	case out <- l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
