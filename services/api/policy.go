package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
	"github.com/nats-io/nats.go/jetstream"
)

// policies answers the verbs of policies.
type policies struct {
	sessions  *sessions
	board     *board
	js        jetstream.JetStream
	names     stream.Names
	defaults  func(class string) schemas.Policy
	host      schemas.HostID
	log       *slog.Logger
	policies  *policykv.Cache
	records   *statekv.Store
	past      *archive.Reader
	scheduler Explainer
}

// policyVerbs are the endpoints of policies; a server without a cache of them has none.
func (s *policies) policyVerbs() map[string]handler {
	if s.policies == nil {
		return nil
	}
	return map[string]handler{
		"policy_get": s.policyGet, "policy_set": s.policySet, "policy_test": s.policyTest, "policy_simulate": s.policySimulate,
	}
}

// scoped reads whose policy a request is about, and the record if that is one session.
func (s *policies) scoped(ctx context.Context, req request) (schemas.PolicyScope, schemas.SessionRecord, error) {
	if req.Policy == nil || req.Policy.Scope == "" {
		return "", schemas.SessionRecord{}, schemas.UsageError("the policy names no scope").WithHint("want all, class:NAME, tenant:NAME or session:NAME")
	}
	scope, err := schemas.ParsePolicyScope(req.Policy.Scope, session.Classes())
	if err != nil {
		return "", schemas.SessionRecord{}, schemas.UsageError("%v", err)
	}
	n, ok := scope.Session()
	if !ok {
		return scope, schemas.SessionRecord{}, nil
	}
	v, err := s.sessions.get(ctx, n)
	return scope, v.SessionRecord, err
}

// policyGet gives one scope's policy, or those of all, of the classes and of sessions
// that have one.
func (s *policies) policyGet(ctx context.Context, req request) (any, error) {
	if req.Policy != nil && req.Policy.Scope != "" {
		scope, r, err := s.scoped(ctx, req)
		if err != nil {
			return nil, err
		}
		v, err := s.documentOf(ctx, scope, r)
		return []schemas.PolicyView{s.policyView(v, r)}, err
	}
	out := []schemas.PolicyView{}
	have := map[schemas.PolicyScope]bool{}
	for _, v := range s.policies.Documents(true) {
		var r schemas.SessionRecord
		if n, ok := v.Scope.Session(); ok {
			current, ok := s.board.get(n)
			if !ok || current.UID != v.UID || current.State == schemas.Deleted {
				continue // of a session that is gone
			}
			r = current
		}
		if v.Scope == schemas.ScopeDefaults && len(v.Defaults) == 0 {
			continue // they were taken back
		}
		have[v.Scope] = true
		out = append(out, s.policyView(v, r))
	}
	scopes := []schemas.PolicyScope{schemas.ScopeAll}
	for _, class := range session.Classes() {
		scopes = append(scopes, schemas.ClassScope(class))
	}
	for _, scope := range scopes {
		if !have[scope] {
			out = append(out, s.policyView(policykv.Versioned{PolicyDocument: schemas.PolicyDocument{Scope: scope}}, schemas.SessionRecord{}))
		}
	}
	slices.SortFunc(out, func(a, b schemas.PolicyView) int { return cmp.Compare(a.Scope, b.Scope) })
	return out, nil
}

// documentOf reads a scope's document; one of an earlier session of that name is none.
func (s *policies) documentOf(ctx context.Context, scope schemas.PolicyScope, r schemas.SessionRecord) (policykv.Versioned, error) {
	v, err := s.policies.Get(ctx, scope)
	if err == nil && v.UID != r.UID {
		v.Policy, v.UID = schemas.Policy{}, r.UID
	}
	return v, err
}

func (s *policies) policySet(ctx context.Context, req request) (any, error) {
	scope, r, err := s.scoped(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.Policy.Policy == nil {
		return nil, schemas.UsageError("policy of %s: nothing to set", scope)
	}
	if err := req.Policy.Policy.Validate(scope); err != nil {
		return nil, unusable(scope, err)
	}
	prev, err := s.policies.Get(ctx, scope)
	if err != nil {
		return nil, err
	}
	if want := req.Policy.Version; want != nil && *want != prev.Version {
		return nil, schemas.StateError(schemas.ReasonConflict, "the policy of %s has version %d now, not %d", scope, prev.Version, *want).WithHint("it was changed meanwhile: read it again")
	}
	if req.Policy.Absent && prev.UID == r.UID && len(prev.Policy.Lines()) > 0 {
		return nil, schemas.StateError(schemas.ReasonConflict, "there is a policy of %s, version %d", scope, prev.Version).WithHint("read it, and replace that version")
	}
	doc := schemas.PolicyDocument{Scope: scope, UID: r.UID, Policy: *req.Policy.Policy,
		Change: schemas.PolicyChange{By: req.by.String(), Reason: req.Reason}}
	v, err := s.policies.Set(ctx, prev, doc)
	if errors.Is(err, policykv.ErrVersion) {
		return nil, schemas.StateError(schemas.ReasonConflict, "%v", err).WithHint("read it again")
	}
	if err != nil {
		return nil, err
	}
	return s.policyView(v, r), nil
}

// tester decides as the scheduler would under other policies.
type tester interface {
	Try(ctx context.Context, in func(schemas.SessionRecord) bool, trial func(schemas.SessionRecord) session.Policy) (schemas.PolicyTest, error)
}

func (s *policies) policyTest(ctx context.Context, req request) (any, error) {
	scope, p, trial, err := s.trial(ctx, req)
	if err != nil {
		return nil, err
	}
	t, ok := s.scheduler.(tester)
	if !ok {
		return nil, schemas.FailedError(schemas.ReasonNoServer, "no scheduler runs here that could try a policy")
	}
	ruled := 0
	out, err := t.Try(ctx, func(r schemas.SessionRecord) bool {
		covers := policykv.Covers(scope, r)
		if covers && r.Idle != nil {
			ruled++
		}
		return covers
	}, trial)
	out.Scope, out.Notes = scope, overruled(scope, p, ruled)
	return out, err
}

// overruled says that a policy doesn't say when sessions are suspended that were run with
// a rule of their own: so many of those that it covers.
func overruled(scope schemas.PolicyScope, p schemas.Policy, ruled int) []string {
	if _, one := scope.Session(); one || ruled == 0 || p.Grace == nil && p.Never == nil {
		return nil
	}
	return []string{fmt.Sprintf("%d of these sessions were run with --idle, which lies above the policy of %s: its grace and never change nothing for them; what is set for the session itself (policy set NAME) lies above --idle", ruled, scope)}
}

// trial reads a policy that is only to be tried; that of the scope as it is if the
// request has none.
func (s *policies) trial(ctx context.Context, req request) (schemas.PolicyScope, schemas.Policy, func(schemas.SessionRecord) session.Policy, error) {
	scope, r, err := s.scoped(ctx, req)
	if err != nil {
		return "", schemas.Policy{}, nil, err
	}
	if t := scope.Tenant(); t != "" {
		return "", schemas.Policy{}, nil, schemas.UsageError("the policy of tenant %s is a quota", t)
	}
	p := req.Policy.Policy
	if p == nil {
		v, err := s.documentOf(ctx, scope, r)
		if err != nil {
			return "", schemas.Policy{}, nil, err
		}
		p = &v.Policy
	}
	if err := p.Validate(scope); err != nil {
		return "", schemas.Policy{}, nil, unusable(scope, err)
	}
	return scope, *p, s.policies.Trial(scope, *p), nil
}

// decided gives the last transition of a session that was decided on evidence, nil if
// that is its last anyway, or there is none.
func (s *views) decided(ctx context.Context, v statekv.Versioned) (*schemas.TransitionView, error) {
	if v.Transition.Evidence != nil {
		return nil, nil
	}
	revs, err := s.records.History(ctx, v.Name())
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(revs) {
		if r.UID == v.UID && r.Transition.Evidence != nil {
			t := schemas.ViewTransition(r.SessionRecord)
			return &t, nil
		}
	}
	return nil, nil
}

// policySweep is how often policies of sessions that are gone are dropped.
const policySweep = time.Hour

// sweepPolicies drops the policies of sessions that are gone, at intervals until ctx
// ends: a session is never made again, and every cache holds them.
func (s *policies) sweepPolicies(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		for _, v := range s.policies.Documents(true) {
			if err := s.sweepPolicy(ctx, v); err != nil && ctx.Err() == nil {
				s.log.Warn("policy of a session that is gone not dropped", "scope", v.Scope, "err", err)
			}
		}
	}
}

func (s *policies) sweepPolicy(ctx context.Context, v policykv.Versioned) error {
	n, ok := v.Scope.Session()
	if !ok {
		return nil
	}
	// The board may be behind: that a session is gone only its record says.
	if current, there := s.board.get(n); there && current.UID == v.UID && current.State != schemas.Deleted {
		return nil
	}
	current, err := s.records.Get(ctx, n)
	switch {
	case errors.Is(err, statekv.ErrNoSession):
	case err != nil:
		return err
	case current.UID == v.UID && current.State != schemas.Deleted:
		return nil
	}
	return s.policies.Drop(ctx, v, "api@"+string(s.host), "its session is gone")
}

// policiesOf names the documents that a session is held to, and of the defaults the parts that hold.
func (s *views) policiesOf(r schemas.SessionRecord) (out []string) {
	if s.policies == nil {
		return nil
	}
	var defaults []string
	for _, d := range s.policies.Decisive(r) {
		defaults = append(defaults, fmt.Sprintf("%s by %s", d.Key, d.From))
	}
	if len(defaults) > 0 {
		out = append(out, fmt.Sprintf("%s version %d: %s", schemas.ScopeDefaults, s.policies.Defaults().Version, strings.Join(defaults, ", ")))
	}
	for _, v := range s.policies.Versions(r) {
		out = append(out, fmt.Sprintf("%s version %d", v.Scope, v.Version))
	}
	return out
}

// unusable refuses a policy that makes no sense.
func unusable(scope schemas.PolicyScope, err error) *schemas.APIError {
	return schemas.UsageError("policy of %s: %v", scope, err).WithHint("%s", schemas.HintOf(err))
}
