package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// The bounds of streams of events.
const (
	keepAlive   = 15 * time.Second // between two signs of life, and two looks at the token
	writeWait   = 10 * time.Second // for one event; a client that is slower is cut
	askWait     = 10 * time.Second // for a look at the token
	retryMillis = 2000             // milliseconds after which a browser comes back
	maxStreams  = 1024
	maxPerOne   = 32 // of one token
	// Of those who watch by a share: a tenant makes shares as it likes, and is to leave others their streams.
	maxWatched   = maxStreams / 2
	maxWatchedOf = 128 // of one tenant's sessions
)

// streams counts what is open, and ends it.
type streams struct {
	keepAlive, writeWait time.Duration

	mu        sync.Mutex
	all       int
	of        map[string]int // by actor
	watched   int
	watchedOf map[schemas.Tenant]int
	ended     []context.Context
}

func newStreams() *streams {
	return &streams{keepAlive: keepAlive, writeWait: writeWait, of: map[string]int{}, watchedOf: map[schemas.Tenant]int{}}
}

// until has streams end with ctx, too.
func (s *streams) until(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, ctx)
}

// begin takes a place among the streams, and gives the context of one; the caller calls end.
func (s *streams) begin(ctx context.Context, actor string) (streaming context.Context, end func(), p *Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams {
		return nil, nil, refusal(http.StatusServiceUnavailable, "too many streams are open", "ask again later")
	}
	if s.of[actor] >= maxPerOne {
		return nil, nil, refusal(http.StatusTooManyRequests, fmt.Sprintf("%d streams of this token are open", maxPerOne), "close one")
	}
	s.all++
	s.of[actor]++
	ctx, cancel := context.WithCancel(ctx)
	var stops []func() bool
	for _, other := range s.ended {
		stops = append(stops, context.AfterFunc(other, cancel))
	}
	return ctx, func() {
		cancel()
		for _, stop := range stops {
			stop()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[actor]--; s.of[actor] == 0 {
			delete(s.of, actor)
		}
	}, nil
}

// watch is begin for one who watches a session of a tenant by a share.
func (s *streams) watch(ctx context.Context, actor string, of schemas.Tenant) (streaming context.Context, end func(), p *Problem) {
	if p := s.admit(of); p != nil {
		return nil, nil, p
	}
	streaming, ended, p := s.begin(ctx, actor)
	if p != nil {
		s.leave(of)
		return nil, nil, p
	}
	return streaming, func() {
		ended()
		s.leave(of)
	}, nil
}

// admit takes a place among those who watch.
func (s *streams) admit(of schemas.Tenant) *Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched >= maxWatched {
		return refusal(http.StatusServiceUnavailable, "too many watch shared terminals", "ask again later")
	}
	if s.watchedOf[of] >= maxWatchedOf {
		return refusal(http.StatusTooManyRequests, fmt.Sprintf("%d watch the shares of this tenant", maxWatchedOf), "ask again later")
	}
	s.watched++
	s.watchedOf[of]++
	return nil
}

// leave gives the place back.
func (s *streams) leave(of schemas.Tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched--
	if s.watchedOf[of]--; s.watchedOf[of] == 0 {
		delete(s.watchedOf, of)
	}
}

// event is one of a stream of server-sent events.
type event struct {
	id   string // that the client comes back with; none if empty
	kind string
	data any
}

// stream answers a request with events until one side ends. feed sends them, and returns when it has no more;
// send gives an error when the stream has ended.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, me schemas.WhoAmI, first event, feed func(ctx context.Context, send func(event) error) error) {
	ctx, end, p := g.streams.begin(r.Context(), me.Actor)
	if p != nil {
		p.write(w)
		return
	}
	defer end()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // of nginx
	out := eventWriter{w, http.NewResponseController(w), g.streams.writeWait}
	if out.text(fmt.Sprintf("retry: %d\n", retryMillis)) != nil || out.event(first) != nil {
		return
	}
	events, fed := make(chan event), make(chan error, 1)
	feeding, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		<-fed
	}()
	go func() {
		defer close(fed)
		fed <- feed(feeding, func(e event) error {
			select {
			case events <- e:
				return nil
			case <-feeding.Done():
				return feeding.Err()
			}
		})
	}()
	g.pump(ctx, out, me, events, fed)
}

// pump writes events as they come, and a sign of life else, until the client, the feed or the token ends.
func (g *Gateway) pump(ctx context.Context, out eventWriter, me schemas.WhoAmI, events <-chan event, fed <-chan error) {
	tick := time.NewTicker(g.streams.keepAlive)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			err = out.event(e)
		case why := <-fed:
			if why != nil && ctx.Err() == nil {
				_ = out.event(event{kind: "error", data: problem(why)}) // the client may be gone as well
			}
			return
		case <-tick.C:
			if p := g.still(ctx, me); p != nil {
				_ = out.event(event{kind: "error", data: p})
				return
			}
			err = out.text(":\n\n")
		}
		if err != nil {
			return
		}
	}
}

// still looks whether the token lets its bearer go on. While no API answers it does, but not beyond its end.
func (g *Gateway) still(ctx context.Context, me schemas.WhoAmI) *Problem {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	var now schemas.WhoAmI
	if err := g.ask(ctx, "whoami", schemas.Request{}, &now); err != nil {
		if p := problem(err); p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
			return p
		}
	}
	if !me.Expires.IsZero() && time.Now().After(me.Expires) {
		return refusal(http.StatusUnauthorized, "the token has expired", "")
	}
	return nil
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w    http.ResponseWriter
	c    *http.ResponseController
	wait time.Duration
}

func (o eventWriter) event(e event) error {
	var b strings.Builder
	if e.id != "" {
		fmt.Fprintf(&b, "id: %s\n", e.id)
	}
	if e.kind != "" {
		fmt.Fprintf(&b, "event: %s\n", e.kind)
	}
	if e.data != nil {
		data, err := json.Marshal(e.data) // in one line
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		fmt.Fprintf(&b, "data: %s\n", data)
	}
	return o.text(b.String() + "\n")
}

func (o eventWriter) text(s string) error {
	_ = o.c.SetWriteDeadline(time.Now().Add(o.wait)) // a test's recorder has none
	if _, err := o.w.Write([]byte(s)); err != nil {
		return err
	}
	return o.c.Flush()
}

// who asks the API whose the request's token is, and answers the request if that fails.
func (g *Gateway) who(w http.ResponseWriter, r *http.Request) (me schemas.WhoAmI, ok bool) {
	if err := g.ask(r.Context(), "whoami", schemas.Request{}, &me); err != nil {
		problem(err).write(w)
		return me, false
	}
	if me.Role == schemas.TokenPublisher {
		refusal(http.StatusForbidden, "a token with the role publisher sees nothing", "").write(w)
		return me, false
	}
	return me, true
}

// scope gives the sessions that a stream is about: what is asked for, within what the token is for. "*" is
// every tenant, or session.
func scope(me schemas.WhoAmI, tenant, session string) (ofTenant, ofSession string, p *Problem) {
	for _, part := range []string{tenant, session} {
		if part != "" && !schemas.ValidToken(part) {
			return "", "", refusal(http.StatusBadRequest, fmt.Sprintf("%.80q is no name", part), "want 1 to 64 of A-Z a-z 0-9 _ -")
		}
	}
	ofTenant, ofSession = narrow("*", tenant), narrow("*", session)
	if session != "" && tenant == "" && me.Tenant == "" {
		ofTenant = string(schemas.DefaultTenant)
	}
	if me.Tenant != "" && tenant != "" && tenant != string(me.Tenant) || me.Session != "" && session != "" && session != string(me.Session) {
		return "", "", refusal(http.StatusForbidden, "the token is for others", "")
	}
	return narrow(ofTenant, string(me.Tenant)), narrow(ofSession, string(me.Session)), nil
}

// narrow is to, if that says anything.
func narrow(from, to string) string {
	if to == "" {
		return from
	}
	return to
}

// bearing gives a context whose requests are those of the bearer of r's token.
func bearing(ctx context.Context, r *http.Request) context.Context {
	return events.WithToken(ctx, caller(r.Context()).token)
}
