package run

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/worker"
)

// api asks the API in the name of a driver of a host.
func (m machine) api(of schemas.DriverName, on schemas.HostID) *events.API {
	return events.NewAPI(m.nc, events.Options{Creds: m.creds, By: string(of) + "@" + string(on)})
}

// adoptOffered makes sessions of what a driver finds that asks to become one, until ctx ends.
func adoptOffered(ctx context.Context, w *worker.Worker, name schemas.DriverName, d driver.Offerer, api *events.API, log *slog.Logger) error {
	select {
	case <-w.Ready():
	case <-ctx.Done():
	}
	refused := map[string]string{} // the last error of an offer, which is made again and again
	for o := range d.Offers(ctx) {
		o.Run.Host = w.Host
		err := askOn(ctx, api, "run", schemas.Request{
			Name: o.Session, Run: &o.Run, Reason: o.Asks + " asks for it", Wait: schemas.Duration(adoptWait),
		})
		if err == nil {
			delete(refused, o.Session+" "+o.Name)
			continue
		}
		if of := o.Session + " " + o.Name; ctx.Err() == nil && refused[of] != err.Error() {
			refused[of] = err.Error()
			log.Warn("make a session of what asks for it", "driver", name, "called", o.Name, "session", o.Session, "err", err)
		}
	}
	return nil
}

// adoptWait is how long making a session of a container may take.
const adoptWait = time.Minute

// askOn asks the API, and waits for it to be there.
func askOn(ctx context.Context, api *events.API, verb string, req schemas.Request) error {
	ctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	for {
		err := api.Ask(ctx, verb, req, &schemas.View{})
		if !errors.Is(err, events.ErrNoServer) { // else it is starting
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}
