package api

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/janitor"
	"github.com/diapause/diapause/services/keys"
	"github.com/diapause/diapause/services/triggers"
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
	// Orders and Drainer, if given, answer the verbs that order something about hosts.
	Orders  *hostkv.Cache
	Drainer Drainer
	// Past gives Records with what was moved out of NATS; Records alone if nil.
	Past *archive.Reader
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
	// Stored, if given, says what all snapshots of a session take in the store.
	Stored func(n schemas.Name, uid schemas.UID) (bytes int64, known bool)
	// Network is that of process trees that are run without a word on it: DefaultNetwork if empty.
	Network string
	// Failpoints has something go wrong between two steps, in tests; nil is nothing.
	Failpoints *failpoint.Set
	// QueueLead, if given, says when this server is the one of several that brings sessions to hosts which
	// wait for one. It is served only while some do. Without it this one always does.
	QueueLead Lead
	Name      string         // of the process, in what it writes by itself: "HOST"
	Host      schemas.HostID // where new sessions go if it can run them; any host if empty
	Version   string         // of the program: semantic
	Log       *slog.Logger
}

var _ triggers.Checkpointer = (*Server)(nil)

// Server answers clients; Serve runs it. Each kind of verb is a type of its own.
type Server struct {
	nc      *nats.Conn
	version string
	log     *slog.Logger
	records *statekv.Store
	board   *board
	known   chan struct{} // closed when the board shows all records
	ready   chan struct{}
	verbs   map[string]handler

	archives *archiver
	captures *capturer
	ends     *ender
	look     *views
	policies *policies
	tokens   *tokens
	costs    *costs
	placer   *placer
}

// New makes a server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Fleet == nil { // which watches nothing: every host counts as there
		o.Fleet = fleet.New(fleet.Options{JS: o.JS, Names: o.Names, Orders: o.Orders})
	}
	if o.Past == nil {
		o.Past = archive.Untouched(o.Records)
	}
	b := newBoard()
	hosts := &placement{fleet: o.Fleet, images: o.Images, trusted: o.Trusted, host: o.Host}
	quota := &quotas{board: b, js: o.JS, names: o.Names, policies: o.Policies, records: o.Records}
	ss := &sessions{
		records: o.Records, publish: stream.Publisher{JS: o.JS}, js: o.JS, names: o.Names, board: b,
		hosts: hosts, quotas: quota, failpoints: o.Failpoints, log: o.Log,
	}
	s := &Server{
		nc: o.NC, version: o.Version, log: o.Log, records: o.Records, board: b, known: make(chan struct{}), ready: make(chan struct{}), costs: newCosts(),
		archives: newArchiver(ss, hosts, o.Name),
		captures: &capturer{sessions: ss, hosts: hosts, board: b},
		ends:     &ender{sessions: ss, hosts: hosts, board: b, host: o.Host},
	}
	resumes := &resumer{sessions: ss, hosts: hosts, quotas: quota, board: b}
	shots := &snapshots{
		sessions: ss, captures: s.captures, resumes: resumes, board: b, images: o.Images, keys: o.Keys, records: o.Records, past: o.Past, trusted: o.Trusted,
	}
	makes := &maker{
		sessions: ss, hosts: hosts, rooms: &rooms{hosts: hosts, scheduler: o.Scheduler}, quotas: quota, captures: s.captures, snapshots: shots, resumes: resumes, ends: s.ends,
		network: cmp.Or(o.Network, schemas.DefaultNetwork), sealer: &sealer{keys: o.Keys, recipients: o.Recipients}, board: b, failpoints: o.Failpoints, images: o.Images, records: o.Records,
		importer: &importer{sessions: ss, nc: o.NC}, desktops: newDesktops(o, b),
	}
	moves := &mover{sessions: ss, hosts: hosts, rooms: makes.rooms, resumes: resumes, board: b, orders: o.Orders}
	trial := &trials{sessions: ss, hosts: hosts, captures: s.captures, snapshots: shots, board: b}
	look := &views{
		sessions: ss, quotas: quota, board: b, fleet: o.Fleet, js: o.JS, log: o.Log, names: o.Names, nc: o.NC,
		policies: o.Policies, records: o.Records, past: o.Past, scheduler: o.Scheduler, stored: o.Stored, rooms: makes.rooms,
	}
	s.look = look
	s.placer = newPlacer(o, ss, makes.rooms)
	s.policies = &policies{
		sessions: ss, board: b, js: o.JS, names: o.Names, defaults: o.Defaults, host: o.Host, log: o.Log, policies: o.Policies, records: o.Records, past: o.Past, scheduler: o.Scheduler,
	}
	exposer := &exposer{sessions: ss}
	joins := &joiner{board: b, log: o.Log, publish: ss.publish, records: o.Records}
	s.verbs = map[string]handler{
		"run": makes.run, "fork": makes.fork,
		"suspend": joins.joining(s.captures.suspend, toSuspend), "checkpoint": s.captures.checkpoint,
		"resume": joins.joining(resumes.resume, toRun), "ensure": joins.joining(resumes.ensure, toRun),
		"rm": s.ends.remove, "kill": s.ends.kill,
		"rollback": shots.rollback, "snapshots": shots.snapshots, "snapshot_rm": shots.snapshotRemove,
		"replace": trial.replace, "accept": trial.accept, "reject": trial.reject,
		"list": look.list, "show": look.show, "history": look.history, "explain": look.explain, "audit": look.audit,
		"move": moves.move, "usage": look.usage, "stats": look.stats, "activity": ss.activity, "dismiss": ss.dismiss,
		"label": (&labeller{sessions: ss}).label, "archive": s.archives.archive, "expose": exposer.expose, "reach": exposer.reach,
	}
	s.tokens = &tokens{js: o.JS, names: o.Names, log: o.Log}
	maps.Copy(s.verbs, s.tokens.verbs())
	maps.Copy(s.verbs, (&logins{tokens: s.tokens, sessions: ss}).verbs())
	maps.Copy(s.verbs, (&templates{makes: makes, board: b}).verbs())
	shares := &sharer{tokens: s.tokens, sessions: ss}
	s.tokens.revoked = shares.revoked
	maps.Copy(s.verbs, shares.verbs())
	s.verbs["redact"] = (&redactor{sessions: ss, snapshots: shots, nc: o.NC, log: o.Log}).redact
	maps.Copy(s.verbs, (&listeners{nc: o.NC, js: o.JS, names: o.Names, sessions: ss, log: o.Log}).verbs())
	maps.Copy(s.verbs, (&keyVerbs{board: b, keys: o.Keys, records: o.Records}).keyVerbs())
	maps.Copy(s.verbs, (&storeVerbs{sessions: ss, snapshots: shots, janitor: o.Janitor, reader: o.Reader}).storeVerbs())
	maps.Copy(s.verbs, (&hostVerbs{fleet: o.Fleet, orders: o.Orders, drainer: o.Drainer, board: b, js: o.JS, names: o.Names, sessions: ss}).verbs())
	maps.Copy(s.verbs, s.policies.policyVerbs())
	return s
}

// Ready is closed when the server answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Serve answers until ctx ends, and returns when every request has been
// answered.
func (s *Server) Serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return s.records.Skim(ctx, s.board.skim, sync.OnceFunc(func() { close(s.known) }))
	})
	g.Go(func() error {
		select {
		case <-s.known:
		case <-ctx.Done():
			return nil
		}
		return s.answer(ctx)
	})
	g.Go(func() error {
		select {
		case <-s.known:
			s.placer.serve(ctx)
		case <-ctx.Done():
		}
		return nil
	})
	if s.policies.policies != nil {
		g.Go(func() error {
			t := time.NewTicker(policySweep)
			defer t.Stop()
			s.policies.sweepPolicies(ctx, t.C)
			return nil
		})
	}
	return g.Wait()
}

// Census counts the sessions of the fleet, as far as this server has read.
func (s *Server) Census() Census { return s.board.counted() }

// Seen gives a session's record as this server read it last, which may be a while ago.
func (s *Server) Seen(n schemas.Name) (schemas.SessionRecord, bool) {
	r, ok := s.board.get(n)
	return r, ok && r.State != schemas.Deleted
}

// Checkpoint makes a checkpoint for a trigger of an agent's, and waits for it.
func (s *Server) Checkpoint(ctx context.Context, a triggers.Ask) (triggers.Outcome, error) {
	return s.captures.triggered(ctx, a)
}

// Renew makes a checkpoint of a session that still is as r says, and waits for it.
func (s *Server) Renew(ctx context.Context, r schemas.SessionRecord, reason string) (triggers.Outcome, error) {
	return s.captures.renewed(ctx, r, reason)
}

// Running gives the sessions that run, as this server read them last.
func (s *Server) Running() iter.Seq[schemas.SessionRecord] { return s.board.running() }

// Changed says which sessions of a host may have executed something since their last snapshot; ok is false
// if the host is gone, or doesn't answer.
func (s *Server) Changed(ctx context.Context, host schemas.HostID) (changed func(schemas.UID) bool, ok bool) {
	if _, gone := s.look.fleet.Gone(host); gone {
		return nil, false
	}
	seen := s.look.observed(ctx, host)
	return func(uid schemas.UID) bool {
		o, ok := seen[uid]
		return ok && !o.Unchanged
	}, seen != nil
}

// Archive puts a session into the archive because of a policy, if its record still is as v says.
func (s *Server) Archive(ctx context.Context, v statekv.Versioned, why schemas.ArchivedFor, reason string) error {
	return s.archives.put(ctx, v, why, reason)
}

// DropMemory drops the memory of an archived session because of its policy, if its record still is as v says.
func (s *Server) DropMemory(ctx context.Context, v statekv.Versioned, t schemas.Transition) error {
	return s.archives.drop(ctx, v, t)
}

// Expire removes a session because of the retention policy, if its record still is
// as v says. Its host deletes the images.
func (s *Server) Expire(ctx context.Context, v statekv.Versioned, reason string) error {
	return s.ends.expire(ctx, v, reason)
}
