package api

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/janitor"
	"github.com/diapause/diapause/services/keys"
)

// Explainer knows how idle sessions are and what stands in the way of a
// suspend. *scheduler.Scheduler is one.
type Explainer interface {
	Explain(ctx context.Context, n schemas.Name) (schemas.Explanation, bool, error)
	Idle(ctx context.Context) (map[schemas.Name]time.Duration, error)
}

// Options is what a server is made of.
type Options struct {
	NC        *nats.Conn
	JS        jetstream.JetStream
	Names     stream.Names
	Records   *statekv.Store
	Images    objectstore.Store
	Fleet     Fleet // where sessions are placed; any host that announced itself if nil
	Scheduler Explainer
	// Policies, if given, are shown and changed by the verbs of policies.
	Policies *policykv.Cache
	// Defaults, if given, says what the scheduler and the janitor hold sessions of a class to
	// (of any, if it is empty) where no policy says otherwise.
	Defaults func(class string) schemas.Policy
	// Recipients are whom the spec of a new session is sealed for: the hosts.
	Recipients []age.Recipient
	// Trusted gives the keys that images of a tenant may be signed with.
	Trusted func(tenant, signer string) []ed25519.PublicKey
	// Keys, if given, says both in their place, and is changed by the verbs of keys.
	Keys *keys.Keeper
	// Janitor and Reader, if given, answer the verbs that look after the store.
	Janitor *janitor.Janitor
	Reader  Reader
	// Failpoints has something go wrong between two steps, in tests; nil is nothing.
	Failpoints *failpoint.Set
	Host       schemas.HostID // where new sessions go if it can run them; any host if empty
	Version    string         // of the program: semantic
	Log        *slog.Logger
}

// Server answers clients; Serve runs it.
type Server struct {
	Options
	publish stream.Publisher
	board   *board
	ready   chan struct{}
}

// New makes a server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Fleet == nil { // which watches nothing: every host counts as there
		o.Fleet = fleet.New(fleet.Options{JS: o.JS, Names: o.Names})
	}
	return &Server{Options: o, publish: stream.Publisher{JS: o.JS}, board: newBoard(), ready: make(chan struct{})}
}

// Ready is closed when the server answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

type handler func(context.Context, schemas.Request) (any, error)

// verbs are the endpoints under diapause.v1.api.
func (s *Server) verbs() map[string]handler {
	all := map[string]handler{
		"run": s.run, "suspend": s.joining(s.suspend, toSuspend), "resume": s.joining(s.resume, toRun),
		"ensure": s.joining(s.ensure, toRun), "checkpoint": s.checkpoint,
		"rm": s.remove, "kill": s.kill, "fork": s.fork, "rollback": s.rollback, "replace": s.replace,
		"accept": s.accept, "reject": s.reject,
		"snapshots": s.snapshots, "snapshot_rm": s.snapshotRemove,
		"list": s.list, "show": s.show, "history": s.history, "explain": s.explain, "audit": s.audit,
		"usage": s.usage,
		"stats": s.stats,
	}
	maps.Copy(all, s.keyVerbs())
	maps.Copy(all, s.storeVerbs())
	maps.Copy(all, s.policyVerbs())
	return all
}

// Serve answers until ctx ends, and returns when every request has been
// answered.
func (s *Server) Serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	known := make(chan struct{})
	g.Go(func() error {
		return s.Records.Skim(ctx, s.board.skim, sync.OnceFunc(func() { close(known) }))
	})
	g.Go(func() error {
		select {
		case <-known:
		case <-ctx.Done():
			return nil
		}
		return s.answer(ctx)
	})
	if s.Policies != nil {
		g.Go(func() error {
			t := time.NewTicker(policySweep)
			defer t.Stop()
			s.sweepPolicies(ctx, t.C)
			return nil
		})
	}
	return g.Wait()
}

// flushed is how long the server may take to say that it knows the API.
const flushed = 30 * time.Second

func (s *Server) answer(ctx context.Context) error {
	svc, err := micro.AddService(s.NC, micro.Config{Name: "diapause", Version: s.Version, Description: "sessions of Diapause"})
	if err != nil {
		return fmt.Errorf("register the API: %w", err)
	}
	var mu sync.Mutex // a request may still come after Stop
	var stopping bool
	var wg sync.WaitGroup
	group := svc.AddGroup(schemas.SubjectAPI)
	for verb, h := range s.verbs() {
		err := group.AddEndpoint(verb, micro.HandlerFunc(func(r micro.Request) {
			mu.Lock()
			defer mu.Unlock()
			if stopping {
				s.fail(r, context.Canceled)
				return
			}
			wg.Go(func() { s.handle(ctx, verb, h, r) })
		}))
		if err != nil {
			return fmt.Errorf("register API verb %s: %w", verb, err)
		}
	}
	// Only then the server knows of all that was registered.
	if err := s.NC.FlushTimeout(flushed); err != nil && ctx.Err() == nil {
		return fmt.Errorf("register the API: %w", err)
	}
	close(s.ready)
	<-ctx.Done()
	err = svc.Stop()
	mu.Lock()
	stopping = true
	mu.Unlock()
	wg.Wait()
	if err != nil && !s.NC.IsClosed() {
		return fmt.Errorf("unregister the API: %w", err)
	}
	return nil
}

// defaultWait and maxWait bound how long one request may take.
const (
	defaultWait = 2 * time.Minute
	maxWait     = schemas.MaxWithin + time.Hour
)

func (s *Server) handle(ctx context.Context, verb string, h handler, r micro.Request) {
	var req schemas.Request
	if err := json.Unmarshal(r.Data(), &req); err != nil {
		s.fail(r, schemas.UsageError("the request is not one: %v", err))
		return
	}
	wait := time.Duration(req.Wait)
	if wait <= 0 {
		wait = defaultWait
	}
	ctx, cancel := context.WithTimeout(ctx, min(wait, maxWait))
	defer cancel()
	out, err := h(ctx, req)
	if err != nil {
		s.Log.Debug("request refused", "verb", verb, "session", req.Name, "err", err)
		s.fail(r, about(err, req.Name))
		return
	}
	data, err := json.Marshal(out)
	if err != nil {
		s.fail(r, fmt.Errorf("encode the answer: %w", err))
		return
	}
	s.reply(r, &nats.Msg{Data: data})
}

func (s *Server) fail(r micro.Request, err error) {
	answer, err := encodeError(coded(err))
	if err != nil {
		s.Log.Error("error not encoded", "err", err)
		return
	}
	s.reply(r, answer)
}

// reply answers a request from another goroutine than its handler's, which the
// request's own methods don't allow.
func (s *Server) reply(r micro.Request, answer *nats.Msg) {
	if answer.Subject = r.Reply(); answer.Subject == "" {
		return // nobody waits
	}
	if err := s.NC.PublishMsg(answer); err != nil {
		s.Log.Warn("request not answered", "subject", r.Subject(), "err", err)
	}
}

// name reads the session that a request is about.
func name(s string) (schemas.Name, error) {
	n, err := schemas.ParseName(s)
	if err != nil {
		return n, schemas.UsageError("%v", err)
	}
	return n, nil
}

// named reads the session that a request names.
func (s *Server) named(ctx context.Context, req schemas.Request) (statekv.Versioned, error) {
	n, err := name(req.Name)
	if err != nil {
		return statekv.Versioned{}, err
	}
	return s.get(ctx, n)
}

// get reads a session that isn't deleted.
func (s *Server) get(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	v, err := s.Records.Get(ctx, n)
	if err != nil {
		return v, err
	}
	if v.State == schemas.Deleted {
		return v, &schemas.APIError{Code: schemas.CodeNoSession,
			Text: fmt.Sprintf("no such session: %s was deleted at %s", n, v.Since.Format(time.RFC3339))}
	}
	return v, nil
}
