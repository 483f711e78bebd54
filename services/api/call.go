package api

import (
	"context"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Unverified is the actor of what a caller asked whose connection proves no identity.
const Unverified = "unverified"

// Role is what a caller may ask for.
type Role string

// The roles.
const (
	RoleAny    Role = ""       // all that its connection lets through
	RoleUse    Role = "use"    // look, and have sessions run
	RoleLook   Role = "look"   // the verbs that change nothing
	RoleReport Role = "report" // say what is in use
	RoleClient Role = "client" // look, say what is in use, suspend, resume, checkpoint
	RoleOwner  Role = "owner"  // all that is about sessions
	RoleLogin  Role = "login"  // take the place of what is good for once
	RolePort   Role = "port"   // reach one port
	RoleWatch  Role = "watch"  // watch one terminal
)

func (r Role) may(verb string) bool {
	looks := slices.Contains(schemas.LookingVerbs(), verb)
	switch r {
	case RoleAny:
		return true
	case RoleUse:
		return looks || verb == "ensure"
	case RoleLook:
		return looks || verb == logout
	case RoleLogin:
		return verb == login
	case RolePort:
		return verb == "reach"
	case RoleWatch:
		return verb == ofShare
	case RoleReport:
		return verb == "activity" || verb == logout
	case RoleClient:
		return looks || slices.Contains([]string{"activity", "ensure", "resume", "suspend", "checkpoint", "reach", "login_port"}, verb) || verb == logout
	case RoleOwner:
		return looks || slices.Contains(ofSessions, verb) || slices.Contains(ofPolicies, verb) || verb == logout
	}
	return false
}

// Caller is who asks, as far as that is proved.
type Caller struct {
	// Identity is what the connection proves: the NATS user. Empty if it proves nothing.
	Identity string
	// Note is what the caller says of itself, which may be anything.
	Note string
	// Trace is what the request says of the trace that it is a part of; see schemas.HeaderTrace.
	Trace string
	// Tenant confines the caller to the sessions of one tenant; to none if empty.
	Tenant schemas.Tenant
	// Session confines it further, to that session of Tenant; to none if empty.
	Session schemas.SessionID
	Role    Role
	// Token is what proves who asks, if that is a token.
	Token *schemas.TokenRecord

	bearer string // that token: for login alone, which uses it up
}

// Actor is what a record says of who asked.
func (c Caller) Actor() string {
	if c.Identity == "" {
		return Unverified
	}
	return c.Identity
}

// String is the actor and the note, for texts.
func (c Caller) String() string { return schemas.Who(c.Actor(), c.Note) }

// trace is Trace, "" if that is no such value.
func (c Caller) trace() string {
	if !schemas.ValidTrace(c.Trace) {
		return ""
	}
	return c.Trace
}

// request is what one caller asks.
type request struct {
	schemas.Request
	by Caller
}

type handler func(context.Context, request) (any, error)

// defaultWait and maxWait bound how long one request may take.
const (
	defaultWait = 2 * time.Minute
	maxWait     = schemas.MaxWithin + time.Hour
)

// Call has a verb carried out for a caller and gives its answer, which encodes to JSON.
// An error is always a *schemas.APIError. It waits until the server has read the records.
func (s *Server) Call(ctx context.Context, c Caller, verb string, req schemas.Request) (any, error) {
	wait := time.Duration(req.Wait)
	if wait <= 0 {
		wait = defaultWait
	}
	ctx, cancel := context.WithTimeout(ctx, min(wait, maxWait))
	defer cancel()
	out, err := s.call(ctx, c, verb, req)
	if err != nil {
		s.log.Debug("request refused", "verb", verb, "session", req.Name, "caller", c.String(), "err", err)
		return nil, about(err, req.Name)
	}
	return out, nil
}

func (s *Server) call(ctx context.Context, c Caller, verb string, req schemas.Request) (any, error) {
	h, ok := s.verbs[verb]
	if !ok {
		return nil, schemas.UsageError("no verb %.40q here", verb)
	}
	if err := confine(c, verb, &req); err != nil {
		return nil, err
	}
	req.Reason = schemas.Shown(req.Reason) // it goes into the record, which lists show
	select {
	case <-s.known:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	end, err := s.costs.begin(c, verb)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := s.hosted(ctx, verb, req); err != nil {
		return nil, err
	}
	out, err := h(ctx, request{req, c})
	if err == nil && req.Page != nil {
		out = pageOf(out, *req.Page)
	}
	if v, ok := out.(schemas.View); ok && err == nil && len(v.MadeRoom) > 0 {
		v.MadeRoom = c.own(v.MadeRoom)
		out = v
	}
	if v, ok := out.(schemas.View); ok && err == nil && v.PID == 0 {
		views := []schemas.View{v}
		s.look.complete(ctx, views)
		s.look.queued(ctx, c, views)
		out = views[0]
	}
	return out, err
}

// The verbs that are about the caller. Every one may ask for whoami whose token is for more than one thing.
const (
	whoami = "whoami"
	login  = "login"
	logout = "logout"
)

// ofShare is what the bearer of a share asks, and may ask alone.
const ofShare = "shared"

// ofSessions are the verbs that are about the sessions that a request names and no others.
var ofSessions = []string{
	"run", "fork", "move", "suspend", "checkpoint", "resume", "ensure", "rm", "kill", "rollback", "snapshots", "snapshot_rm",
	"replace", "accept", "reject", "dismiss", "show", "history", "explain", "usage", "verify", "activity", "expose", "label", "reach", "login_port",
	"share", "unshare", templateCreate, templateShow, templateRun, templateRemove, "archive", "redact",
}

// ofPolicies are the verbs that are about the sessions of the scope that a request names.
var ofPolicies = []string{"policy_get", "policy_set", "policy_test", "policy_simulate"}
