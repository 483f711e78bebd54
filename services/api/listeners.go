package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/ingresskv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// listeners answers the verbs of TCP listeners. Parts listen by what it writes; it asks them how that goes. The verbs are for
// those alone who aren't confined: a listener reaches a machine, and lets others reach a session.
type listeners struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	names    stream.Names
	sessions *sessions
	log      *slog.Logger

	mu    sync.Mutex
	store *ingresskv.Store // nil before it is needed: the streams may be those of a version that knows no listeners
}

func (s *listeners) verbs() map[string]handler {
	return map[string]handler{"ingress_add": s.add, "ingress_ls": s.list, "ingress_rm": s.remove}
}

// open finds the bucket.
func (s *listeners) open(ctx context.Context) (*ingresskv.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	store, err := ingresskv.Open(ctx, s.js, s.names)
	if errors.Is(err, ingresskv.ErrNoBucket) {
		return nil, schemas.FailedError(schemas.ReasonNoServer, "there are no listeners: %v", err).WithHint("`diapause nats-streams` makes the bucket")
	}
	s.store = store
	return store, err
}

// add adds a listener, and says whether its part listens. Added again as it is, it stays.
func (s *listeners) add(ctx context.Context, req request) (any, error) {
	if req.Listen == nil {
		return nil, schemas.UsageError("the request names no listener")
	}
	if err := req.Listen.Validate(); err != nil {
		return nil, schemas.UsageError("ingress: %v", err)
	}
	v, err := s.sessions.named(ctx, req)
	if err != nil {
		return nil, err
	}
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	proxy := slices.Compact(slices.Sorted(slices.Values(req.Listen.Proxy)))
	want := schemas.Listener{Part: req.Listen.Part, Address: req.Listen.Address, Name: v.Name().String(), UID: v.UID, Port: req.Listen.Port, Proxy: proxy, By: req.by.String()}
	has, err := store.Add(ctx, want)
	if errors.Is(err, ingresskv.ErrTaken) && (has.UID != want.UID || has.Port != want.Port || !slices.Equal(has.Proxy, want.Proxy)) {
		return nil, schemas.StateError(schemas.ReasonExists, "%s of %s leads to port %d of session %s", has.Address, has.Part, has.Port, has.Name).
			WithHint("`diapause ingress rm --part %s %s` removes that listener", has.Part, has.Address)
	}
	if err != nil && !errors.Is(err, ingresskv.ErrTaken) {
		return nil, err
	}
	if err == nil {
		s.log.Info("listener added", "part", has.Part, "address", has.Address, "session", has.Name, "port", has.Port, "by", has.By)
	}
	return s.settled(ctx, has), nil
}

// How long a part may take until it has heard of a new listener, and how often it is asked.
const (
	settleWait  = 5 * time.Second
	settleEvery = 50 * time.Millisecond
)

// settled gives a listener as its part has it, once it has heard of it.
func (s *listeners) settled(ctx context.Context, l schemas.Listener) schemas.ListenerView {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	for {
		states, there := s.ask(ctx, l.Part)
		v := merge(l, states, there)
		if !there || v.State != schemas.ListenerAway {
			return v
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			return v
		}
	}
}

func (s *listeners) list(ctx context.Context, req request) (any, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	all, err := store.List(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l schemas.Listener) bool {
		n, err := schemas.ParseName(l.Name)
		return req.Tenant != "" && (err != nil || n.Tenant != req.Tenant)
	})
	var mu sync.Mutex
	states, there := map[string][]schemas.ListenerView{}, map[string]bool{}
	var g errgroup.Group
	g.SetLimit(16)
	asked := map[string]bool{}
	for _, l := range all {
		if asked[l.Part] {
			continue
		}
		asked[l.Part] = true
		g.Go(func() error {
			got, ok := s.ask(ctx, l.Part)
			mu.Lock()
			defer mu.Unlock()
			states[l.Part], there[l.Part] = got, ok
			return nil
		})
	}
	_ = g.Wait() // it has none
	out := []schemas.ListenerView{}
	for _, l := range all {
		v := merge(l, states[l.Part], there[l.Part])
		if s.leadsNowhere(ctx, l) {
			v.State, v.Error = schemas.ListenerFailed, "its session was deleted"
		}
		out = append(out, v)
	}
	return out, nil
}

// leadsNowhere reports whether the session of a listener is known to be gone.
func (s *listeners) leadsNowhere(ctx context.Context, l schemas.Listener) bool {
	n, err := schemas.ParseName(l.Name)
	if err != nil {
		return true
	}
	v, err := s.sessions.get(ctx, n)
	if err != nil {
		return schemas.CodeOf(err) == schemas.CodeNoSession || errors.Is(err, statekv.ErrNoSession)
	}
	return v.UID != l.UID
}

func (s *listeners) remove(ctx context.Context, req request) (any, error) {
	if req.Listen == nil {
		return nil, schemas.UsageError("the request names no listener")
	}
	if err := req.Listen.Check(); err != nil {
		return nil, schemas.UsageError("ingress: %v", err)
	}
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	l, err := store.Remove(ctx, req.Listen.Part, req.Listen.Address)
	if errors.Is(err, ingresskv.ErrNone) {
		return nil, schemas.UsageError("%s has no listener at %s", req.Listen.Part, req.Listen.Address).WithHint("`diapause ingress ls` lists them")
	}
	if err != nil {
		return nil, err
	}
	s.log.Info("listener removed", "part", l.Part, "address", l.Address, "session", l.Name, "port", l.Port, "by", req.by.String())
	return l, nil
}

// How long parts may take to say how their listeners are, and how long others of the same name are waited for after the first.
const (
	partWait   = 2 * time.Second
	othersWait = 100 * time.Millisecond
)

// ask asks all parts of a name how their listeners are. there is false if none answers.
func (s *listeners) ask(ctx context.Context, part string) (states []schemas.ListenerView, there bool) {
	inbox := s.nc.NewRespInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, false
	}
	defer func() { _ = sub.Unsubscribe() }() // of a connection that is closed: nothing to do
	if err := s.nc.PublishRequest(schemas.SubjectIngress+"."+part, inbox, nil); err != nil {
		return nil, false
	}
	for wait := partWait; ; wait = othersWait {
		next, cancel := context.WithTimeout(ctx, wait)
		m, err := sub.NextMsgWithContext(next)
		cancel()
		if err != nil { // also that no one listens to the subject
			return states, there
		}
		var got []schemas.ListenerView
		if len(m.Data) == 0 || json.Unmarshal(m.Data, &got) != nil {
			return states, there
		}
		states, there = append(states, got...), true
	}
}

// merge gives a listener with what parts say of it: that one can't listen goes before that another one does.
func merge(l schemas.Listener, states []schemas.ListenerView, there bool) schemas.ListenerView {
	v := schemas.ListenerView{Listener: l, State: schemas.ListenerAway, Error: "no part " + l.Part + " answers"}
	if there {
		v.Error = l.Part + " hasn't heard of it yet"
	}
	for _, s := range states {
		if s.Address != l.Address || s.UID != l.UID || s.Port != l.Port || !s.Added.Equal(l.Added) || v.State == schemas.ListenerFailed {
			continue
		}
		v.State, v.Error = s.State, s.Error
	}
	return v
}
