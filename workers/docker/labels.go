package docker

import (
	"context"
	"slices"
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

// The time until what was offered, or couldn't be yet, is looked at again. It doubles: what is refused
// for good may leave a few revisions in the log each time.
const (
	offerAgain = 200 * time.Millisecond
	offerSlow  = 5 * time.Minute
)

// offers implements driver.Offerer. It delivers the containers with the label diapause.session
// that run, or start to, and are no session yet, and the held ones that others have started.
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

// offerAll offers what there is, and what is started, until the engine goes away.
func (a *adoption) offerAll(ctx context.Context, out chan<- driver.Offer) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	started := a.engine.Events(ctx, client.EventsListOptions{
		Filters: client.Filters{}.Add("type", string(events.ContainerEventType)).Add("event", string(events.ActionStart)),
	})
	for pause := offerAgain; ; {
		open, err := a.offerOnce(ctx, out)
		if err != nil {
			return
		}
		var again <-chan time.Time
		if open {
			again = time.After(pause)
			pause = min(2*pause, offerSlow)
		}
		select {
		case <-again:
		case <-started.Messages:
			pause = offerAgain
		case <-a.notes.kept: // it may have been started just before
			pause = offerAgain
		case <-started.Err:
			return
		}
	}
}

// offerOnce offers what there is. open says that some of it is to be looked at again: it may be refused,
// and a session may be about to give its place to it.
func (a *adoption) offerOnce(ctx context.Context, out chan<- driver.Offer) (open bool, err error) {
	all, err := a.notes.all()
	if err != nil {
		return false, err
	}
	running, err := a.engine.ContainerList(ctx, client.ContainerListOptions{})
	if err != nil {
		return false, err
	}
	for _, c := range running.Items {
		o, later, err := a.offer(ctx, c, all)
		if err != nil {
			return open, err
		}
		open = open || later
		if o == nil {
			continue
		}
		select {
		case out <- *o:
		case <-ctx.Done():
			return open, ctx.Err()
		}
	}
	return open, nil
}

// offer gives the offer of a container that runs, nil if it doesn't ask or is a session already, of this
// driver or another one. later says that it is to be looked at again.
func (a *adoption) offer(ctx context.Context, c container.Summary, all []note) (o *driver.Offer, later bool, err error) {
	if len(c.Names) == 0 {
		return nil, false, nil
	}
	if i := slices.IndexFunc(all, func(n note) bool { return n.Phase == held && n.Container == c.ID }); i >= 0 {
		return ownOffer(all[i], strings.TrimPrefix(c.Names[0], "/")), true, nil
	}
	if c.Labels[labelAdopt] == "" || c.Labels[labelUID] != "" || slices.ContainsFunc(all, func(n note) bool { return n.claims(c.ID, c.Labels) }) {
		return nil, false, nil
	}
	session, _ := schemas.ParseName(c.Labels[labelAdopt]) // one that it can't ask for is refused later
	for _, n := range all {
		if n.Name != session || n.Phase == gone {
			continue
		}
		if was, err := a.engine.called(ctx, n.Container); err != nil || was != "" {
			return nil, true, err
		}
	}
	if by, _, err := a.claims.claimed(ctx, c.ID, c.Labels); err == nil && by != nil {
		return nil, false, nil // after an error, adopting it says what is wrong
	}
	o = offerOf(dockerspec.Options{Container: c.ID, Remove: c.Labels[labelRemove] == "true"}, strings.TrimPrefix(c.Names[0], "/"))
	o.Session, o.Asks, o.Run.Class, o.Run.Existing = c.Labels[labelAdopt], "its label "+labelAdopt, c.Labels[labelClass], schemas.ExistingAsks
	return o, true, nil
}

// ownOffer makes the offer of a held container that others have started.
func ownOffer(n note, called string) *driver.Offer {
	o := offerOf(dockerspec.Options{Container: n.Container, Remove: n.Remove, Binds: n.Binds, SharedVolumes: n.Shared}, called)
	o.Session, o.Asks, o.Run.Existing, o.Run.Of = n.Name.String(), "its container, which others started,", schemas.ExistingOwn, n.UID
	return o
}

// offerOf makes the offer of a container of that name.
func offerOf(o dockerspec.Options, called string) *driver.Offer {
	out := &driver.Offer{Name: called, Run: *dockerspec.Request(schemas.RunRequest{}, o)}
	out.Run.Program = called
	return out
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
