package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

const (
	// coalesce is how long changes are gathered before views are asked for.
	coalesce = 50 * time.Millisecond
	// settle is how long after a list it is asked for once more: the server may not have
	// read yet what was written just before.
	settle = time.Second
	// showAtMost is how many sessions are asked for one by one; of more, all are listed.
	showAtMost = 16
	// pageOfList is how many sessions are listed at a time: a message of NATS has room for so many.
	pageOfList = 400
	// retryAPI is the pause while no Diapause answers.
	retryAPI = time.Second
)

// WatchSessions calls fn, from the caller's goroutine, with what `diapause ls --json` shows
// of each session, and again with that of each one that changed, until ctx ends. One that
// was deleted is shown with that state, once. Which sessions: as for Watch.
//
// What changes between two calls is shown once, as it is then. A change of the record is
// what counts: how idle a session is and what memory it takes are of the moment when it
// was shown last. After a lost connection, what was missed is made up for. While no
// Diapause answers it waits for one. The error is one of the API, as ErrDenied.
func (c *Client) WatchSessions(ctx context.Context, which string, fn func(schemas.View)) error {
	tenant, id, err := scope(which)
	if err != nil {
		return err
	}
	w := &viewWatch{
		api: c.api, tenant: tenant, id: id, fn: fn, shown: map[string]shownView{}, changed: map[string]schemas.SessionRecord{},
		records: make(chan schemas.SessionRecord),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := c.nc.StatusChanged(nats.CONNECTED)
	defer c.nc.RemoveStatusListener(back)
	sub, err := c.nc.Subscribe(schemas.SubjectSession+"."+tenant+"."+id, func(m *nats.Msg) {
		var r schemas.SessionRecord
		if err := json.Unmarshal(m.Data, &r); err != nil {
			c.tell(fmt.Errorf("read what came on %s: %w", m.Subject, err))
			return
		}
		if _, template := r.Name().Template(); template { // no session
			return
		}
		select {
		case w.records <- r:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", which, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // of a connection that is closed: nothing to do
	sub.SetClosedHandler(func(string) { cancel() })
	// The server takes requests of this connection after the subscription.
	return w.run(ctx, sub, back)
}

// viewWatch shows sessions as they change.
type viewWatch struct {
	api        *API
	tenant, id string
	fn         func(schemas.View)
	records    chan schemas.SessionRecord
	shown      map[string]shownView
	changed    map[string]schemas.SessionRecord // since they were shown
}

// shownView is a view as it was shown, and its text without what changes all the time.
type shownView struct {
	view schemas.View
	text string
}

func (w *viewWatch) run(ctx context.Context, sub *nats.Subscription, back <-chan nats.Status) error {
	due := time.NewTimer(0) // when to look; the first time all
	defer due.Stop()
	again := time.NewTimer(settle)
	defer again.Stop()
	all, dropped := true, 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-w.records:
			if len(w.changed) == 0 && !all {
				due.Reset(coalesce)
			}
			w.changed[r.Name().String()] = r
			continue
		case _, open := <-back:
			if !open {
				return nil // the connection is closed for good
			}
			all = true
			due.Reset(0)
			again.Reset(settle)
			continue
		case <-again.C:
			all = true
		case <-due.C:
		}
		if n, err := sub.Dropped(); err == nil && n > dropped {
			dropped, all = n, true // they came faster than they were taken
		}
		switch err := w.lookWhileConnected(ctx, back, all); {
		case ctx.Err() != nil:
			return nil
		case passes(err):
			all = true
			due.Reset(retryAPI)
		case err != nil:
			return err
		default:
			all = false
		}
	}
}

// passes tells an error that is of the connection or of a Diapause that ends: the next look may succeed.
func passes(err error) bool {
	var network net.Error
	return errors.Is(err, ErrNoServer) || errors.Is(err, ErrLost) || schemas.ReasonOf(err) == schemas.ReasonStopping ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network)
}

// lookWhileConnected looks until the connection is back after a loss: the answer that was due then may
// never come. The error is ErrLost in that case, and all has to be looked at again.
func (w *viewWatch) lookWhileConnected(ctx context.Context, back <-chan nats.Status, all bool) error {
	looking, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-back:
			lost(ErrLost)
		case <-done:
		}
	}()
	err := w.look(looking, all)
	close(done)
	<-ended
	if context.Cause(looking) == error(ErrLost) {
		return ErrLost
	}
	return err
}

// look shows what changed, or what differs of all.
func (w *viewWatch) look(ctx context.Context, all bool) error {
	names := slices.Sorted(maps.Keys(w.changed))
	if !all && len(names) <= showAtMost {
		for _, name := range names {
			if err := w.lookAt(ctx, name); err != nil {
				return err
			}
			delete(w.changed, name)
		}
		return nil
	}
	views, err := w.list(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, v := range views {
		there[v.Name] = true
		if r, ok := w.changed[v.Name]; !ok || r.UID == v.UID && r.Version <= v.Version {
			delete(w.changed, v.Name)
			w.show(v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.shown)) {
		if !there[name] {
			w.gone(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.changed)) { // the list is older than they are
		if err := w.lookAt(ctx, name); err != nil {
			return err
		}
		delete(w.changed, name)
	}
	return nil
}

// list gives the views of all sessions that are watched.
func (w *viewWatch) list(ctx context.Context) (views []schemas.View, err error) {
	if w.id != "*" && w.tenant != "*" {
		var v schemas.View
		err := w.api.Ask(ctx, "show", schemas.Request{Name: w.tenant + "/" + w.id}, &v)
		if schemas.CodeOf(err) == schemas.CodeNoSession {
			return nil, nil
		}
		return []schemas.View{v}, err
	}
	req := schemas.Request{List: &schemas.ListRequest{Limit: pageOfList}}
	if w.tenant != "*" {
		req.Tenant = schemas.Tenant(w.tenant)
	}
	for {
		var page []schemas.View
		if err := w.api.Ask(ctx, "list", req, &page); err != nil {
			return nil, err
		}
		views = append(views, page...)
		// One of before pages gives all at once, each time.
		if len(page) != pageOfList || page[len(page)-1].Name == req.List.After {
			break
		}
		req.List.After = page[len(page)-1].Name
	}
	return slices.DeleteFunc(views, func(v schemas.View) bool {
		n, err := schemas.ParseName(v.Name)
		return err != nil || w.id != "*" && string(n.Session) != w.id
	}), nil
}

func (w *viewWatch) lookAt(ctx context.Context, name string) error {
	if r := w.changed[name]; r.State == schemas.Deleted {
		w.gone(name)
		return nil
	}
	var v schemas.View
	err := w.api.Ask(ctx, "show", schemas.Request{Name: name}, &v)
	if schemas.CodeOf(err) == schemas.CodeNoSession {
		w.gone(name)
		return nil
	}
	if err == nil {
		w.show(v)
	}
	return err
}

// show calls fn if there is anything new in a view.
func (w *viewWatch) show(v schemas.View) {
	lasting := v
	lasting.IdleSeconds, lasting.RSSBytes, lasting.Processes = 0, 0, 0
	text, err := json.Marshal(lasting)
	if err != nil || w.shown[v.Name].text == string(text) {
		return
	}
	w.shown[v.Name] = shownView{v, string(text)}
	w.fn(v)
}

// gone shows a session as deleted, if it was shown.
func (w *viewWatch) gone(name string) {
	last, ok := w.shown[name]
	if !ok {
		return
	}
	delete(w.shown, name)
	v := last.view
	if r, ok := w.changed[name]; ok && r.State == schemas.Deleted {
		v = schemas.ViewOf(r)
	}
	v.State, v.PID, v.RSSBytes, v.Processes, v.IdleSeconds, v.Listens, v.Shares = schemas.Deleted, 0, 0, 0, 0, nil, nil
	w.fn(v)
}
