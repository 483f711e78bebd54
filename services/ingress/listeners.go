package ingress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/schemas"
)

// Listeners takes TCP connections where operators have said so, for one part. What may be reached is what they have said:
// Options.Authorizer isn't asked.
type Listeners struct {
	Options
	again time.Duration // the pause after one couldn't listen

	mu  sync.Mutex
	all map[string]*listening // by address
}

// mostConnections is how many a listener has at a time: each takes descriptors of the gateway, of NATS and of the worker,
// which other sessions need as well.
const mostConnections = 1000

// NewListeners makes a part's listeners; Serve runs them.
func NewListeners(o Options) *Listeners {
	return &Listeners{Options: o.withDefaults(), again: 5 * time.Second, all: map[string]*listening{}}
}

// listening is one listener.
type listening struct {
	record schemas.ListenerRecord
	stop   context.CancelFunc
	done   chan struct{} // closed when it has let its address free

	mu  sync.Mutex
	why error // that it doesn't listen; errNotYet at first
}

var errNotYet = errors.New("it was just added")

// Serve runs listeners until ctx ends. follow calls take with each record of the part, from one goroutine, and again when it has
// changed, until its context ends.
func (l *Listeners) Serve(ctx context.Context, follow func(ctx context.Context, take func(schemas.ListenerRecord)) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return follow(ctx, func(r schemas.ListenerRecord) { l.take(ctx, g, r) })
	})
	return g.Wait()
}

// take begins, changes or ends a listener.
func (l *Listeners) take(ctx context.Context, g *errgroup.Group, r schemas.ListenerRecord) {
	l.mu.Lock()
	was := l.all[r.Address]
	l.mu.Unlock()
	if was != nil {
		if was.record.Change == r.Change {
			return // it is told again
		}
		was.stop()
		<-was.done // the next one needs its address
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, r.Address)
	if !r.Removed.IsZero() {
		return
	}
	one := &listening{record: r, done: make(chan struct{}), why: errNotYet}
	ctx, one.stop = context.WithCancel(ctx)
	l.all[r.Address] = one
	g.Go(func() error {
		defer close(one.done)
		defer one.stop()
		l.run(ctx, one)
		return nil
	})
}

// run listens until ctx ends. Where it can't, it says so and tries again.
func (l *Listeners) run(ctx context.Context, one *listening) {
	for {
		err := l.serve(ctx, one)
		if ctx.Err() != nil {
			return
		}
		if one.set(err) {
			l.Log.Warn("a listener can't take connections; it tries again", "address", one.record.Address, "session", one.record.Name, "err", err)
		}
		select {
		case <-time.After(l.again):
		case <-ctx.Done():
			return
		}
	}
}

func (l *Listeners) serve(ctx context.Context, one *listening) error {
	r := one.record
	name, err := schemas.ParseName(r.Name)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", r.Address)
	if err != nil {
		return err
	}
	defer listener.Close()
	o := l.Options
	o.Authorizer = ofSession{l.Waker, r.UID}
	server := NewTCPServer(o, Target{Name: name, Port: r.Port})
	server.UID, server.Most = r.UID, mostConnections
	server.Told, server.Tells = slices.Contains(r.Proxy, schemas.ProxyAccept), slices.Contains(r.Proxy, schemas.ProxySend)
	one.set(nil)
	l.Log.Info("a listener takes connections", "address", r.Address, "session", r.Name, "port", r.Port)
	return server.Serve(ctx, listener)
}

// set notes why it doesn't listen, nil if it does, and reports whether that is news.
func (o *listening) set(why error) (news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	news = why != nil && (o.why == nil || o.why.Error() != why.Error())
	o.why = why
	return news
}

// States says how the listeners are, by their addresses.
func (l *Listeners) States() []schemas.ListenerView {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []schemas.ListenerView{}
	for _, one := range l.all {
		if v, ok := one.view(); ok {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b schemas.ListenerView) int { return cmp.Compare(a.Address, b.Address) })
	return out
}

// view says how it is; ok is false before it has tried to listen.
func (o *listening) view() (v schemas.ListenerView, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v = schemas.ListenerView{Listener: o.record.Listener, State: schemas.ListenerOpen}
	if o.why != nil {
		v.State, v.Error = schemas.ListenerFailed, o.why.Error()
	}
	return v, o.why != errNotYet
}

// ofSession lets each connection of a listener reach the session that it was added for, and none that has come to have its name.
type ofSession struct {
	waker Waker
	uid   schemas.UID
}

// Authorize implements Authorizer.
func (s ofSession) Authorize(ctx context.Context, a Ask) (Grant, error) {
	v, err := s.waker.Look(ctx, a.Target)
	if err != nil {
		return Grant{}, err
	}
	if v.UID != s.uid {
		return Grant{}, errAnother(a.Target.Name)
	}
	return Grant{Caller: a.From.Addr().String()}, nil
}

func errAnother(n schemas.Name) error {
	return schemas.FailedError(schemas.ReasonDenied, "session %s is another one than the listener is for", n)
}
