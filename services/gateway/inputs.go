package gateway

import (
	"strings"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Page is a part of a list.
type Page struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty" doc:"The after of the next page; none if this is the last"`
}

// A page has no more sessions than one message of NATS has room for.
type listIn struct {
	Waiting
	Linked
	Tenant   schemas.Tenant       `query:"tenant" doc:"Of this tenant alone"`
	State    []string             `query:"state" doc:"In one of these states, separated by commas" enum:"starting,running,suspending,suspended,resuming,exited,failed"`
	Class    string               `query:"class"`
	Host     schemas.HostID       `query:"host"`
	Archived schemas.ListArchived `query:"archived" enum:"none,only" doc:"none leaves out the sessions in the archive, only lists these alone; all of both if it isn't given"`
	Label    []string             `query:"label,explode" maxItems:"16" doc:"With this label: K=V, or K with any value; several times for all of them"`
	Limit    int                  `query:"limit" minimum:"1" maximum:"400" default:"100"`
	After    string               `query:"after" doc:"The next of the page before"`
}

func (in *listIn) request() (schemas.Request, error) {
	l := &schemas.ListRequest{Class: in.Class, Host: in.Host, Labels: in.Label, Archived: in.Archived, Limit: in.Limit + 1, After: strings.Replace(in.After, ".", "/", 1)}
	for _, s := range in.State {
		l.States = append(l.States, schemas.State(s))
	}
	return schemas.Request{Tenant: in.Tenant, List: l}, nil
}

// page is a list that was asked for with one session more than it is to have.
func page(in *listIn, views []schemas.View) (*answer[Page], error) {
	p := Page{Sessions: []Session{}}
	for i, v := range views {
		if i == in.Limit {
			p.Next = inPath(views[i-1].Name)
			break
		}
		p.Sessions = append(p.Sessions, shown(v))
	}
	return &answer[Page]{Body: p, Link: in.next("after", p.Next)}, nil
}

type removeIn struct {
	OfSession
	Waiting
	Shred  bool   `query:"shred" doc:"Its keys on every host as well"`
	Reason string `query:"reason"`
}

func (in *removeIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Shred: in.Shred, Reason: in.Reason}, nil
}

// SuspendBody is how a session is to be suspended.
type SuspendBody struct {
	WhyBody
	Reset bool `json:"reset,omitempty" doc:"Not now: allow automatic suspends after failed ones"`
}

type suspendIn struct {
	OfSession
	Waiting
	Body *SuspendBody
}

func (in *suspendIn) request() (schemas.Request, error) {
	r := schemas.Request{Name: in.name()}
	if in.Body != nil {
		r.Reason, r.Reset = in.Body.Reason, in.Body.Reset
	}
	return r, nil
}

// ResumeBody is how a session is to be resumed.
type ResumeBody struct {
	WhyBody
	Clean bool `json:"clean,omitempty" doc:"Start its command again; its memory stays in its snapshots"`
}

type resumeIn struct {
	OfSession
	Waiting
	Body *ResumeBody
}

func (in *resumeIn) request() (schemas.Request, error) {
	r := schemas.Request{Name: in.name()}
	if in.Body != nil {
		r.Reason, r.Clean = in.Body.Reason, in.Body.Clean
	}
	return r, nil
}

// CheckpointBody is what is kept with a snapshot.
type CheckpointBody struct {
	WhyBody
	Description string `json:"description,omitempty"`
	RunID       string `json:"run_id,omitempty" doc:"The caller's own id for it"`
}

type checkpointIn struct {
	OfSession
	Waiting
	Body *CheckpointBody
}

func (in *checkpointIn) request() (schemas.Request, error) {
	r := schemas.Request{Name: in.name()}
	if b := in.Body; b != nil {
		r.Reason, r.Description, r.RunID = b.Reason, b.Description, b.RunID
	}
	return r, nil
}

// ForkBody is the session that a fork makes.
type ForkBody struct {
	WhyBody
	To      string   `json:"to" doc:"Its name: TENANT/ID, or ID for the tenant default"`
	Publish []string `json:"publish,omitempty" doc:"[ADDR:]HOST:PORT in place of the ports that the first publishes; none alone for no ports"`

	Snapshot string `json:"snapshot,omitempty" doc:"The snapshot of the first that it begins from, in place of what that is now"`
}

type forkIn struct {
	OfSession
	Waiting
	Idempotent
	Body ForkBody
}

func (in *forkIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), To: in.Body.To, Snapshot: in.Body.Snapshot, Publish: in.Body.Publish, Reason: in.Body.Reason, Once: in.Key}, nil
}

// RollbackBody is where a session is taken back to.
type RollbackBody struct {
	WhyBody
	Snapshot string `json:"snapshot"`
}

type rollbackIn struct {
	OfSession
	Waiting
	Body RollbackBody
}

func (in *rollbackIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Snapshot: in.Body.Snapshot, Reason: in.Body.Reason}, nil
}

// ReplaceBody is what takes a session's place.
type ReplaceBody struct {
	WhyBody
	Snapshot string           `json:"snapshot,omitempty" doc:"The last one if empty"`
	Within   schemas.Duration `json:"healthy_within,omitempty" doc:"How long what comes may take to be well, an hour at most"`
}

type replaceIn struct {
	OfSession
	Waiting
	Body *ReplaceBody
}

func (in *replaceIn) request() (schemas.Request, error) {
	r := schemas.Request{Name: in.name()}
	if b := in.Body; b != nil {
		r.Reason, r.Snapshot, r.Within = b.Reason, b.Snapshot, b.Within
	}
	return r, nil
}

// MoveBody is where a session goes.
type MoveBody struct {
	WhyBody
	Host schemas.HostID `json:"host,omitempty" doc:"Any that can take it if empty"`
}

type moveIn struct {
	OfSession
	Waiting
	Body *MoveBody
}

func (in *moveIn) request() (schemas.Request, error) {
	r := schemas.Request{Name: in.name()}
	if in.Body != nil {
		r.Reason, r.Host = in.Body.Reason, in.Body.Host
	}
	return r, nil
}

// ActivityBody is what is said of a session.
type ActivityBody struct {
	Kind     schemas.Kind     `json:"kind,omitempty" enum:"input,exec,http,heartbeat,output,presence,busy,hold,agent" default:"input"`
	Key      string           `json:"key,omitempty" doc:"Of presence, busy and hold: tells it from others; of agent: run_start, run_end, before, after or manual"`
	TTL      schemas.Duration `json:"ttl,omitempty" doc:"Of presence, busy and hold: how long, a minute if it isn't given"`
	Released bool             `json:"released,omitempty" doc:"Of presence, busy and hold: it ends now"`
	Reason   string           `json:"reason,omitempty" doc:"Shown by explain"`
	RunID    string           `json:"run_id,omitempty"`
	Action   string           `json:"action,omitempty"`
}

type activityIn struct {
	OfSession
	Waiting
	Body ActivityBody
}

func (in *activityIn) request() (schemas.Request, error) {
	b := in.Body
	return schemas.Request{Name: in.name(), Reason: b.Reason, RunID: b.RunID,
		Activity: &schemas.ActivityRequest{Kind: b.Kind, Key: b.Key, TTL: b.TTL, Released: b.Released, Action: b.Action}}, nil
}

type snapshotIn struct {
	OfSession
	Waiting
	Snapshot string `path:"snapshot"`
}

func (in *snapshotIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Snapshot: in.Snapshot}, nil
}

// VerifyBody is which snapshot is read.
type VerifyBody struct {
	Snapshot string `json:"snapshot,omitempty" doc:"The last one if empty"`
	Restore  bool   `json:"restore,omitempty" doc:"Restore it in quarantine as well"`
}

type verifyIn struct {
	OfSession
	Waiting
	Body *VerifyBody
}

func (in *verifyIn) request() (schemas.Request, error) {
	r := schemas.Request{Name: in.name()}
	if in.Body != nil {
		r.Snapshot, r.Store = in.Body.Snapshot, &schemas.StoreRequest{Restore: in.Body.Restore}
	}
	return r, nil
}

type usageIn struct {
	Waiting
	Session string         `query:"session" doc:"TENANT.ID, or ID for the tenant default"`
	Tenant  schemas.Tenant `query:"tenant"`
	Since   string         `query:"since" doc:"How far back, as 24h; all of the log if neither this nor from is given"`
	From    time.Time      `query:"from"`
	To      time.Time      `query:"to"`
	By      string         `query:"by" enum:"day" doc:"Sums of each day in UTC, too: of the last 30 if no time is given, of 366 at most"`
}

func (in *usageIn) request() (schemas.Request, error) {
	u := &schemas.UsageRequest{From: in.From, To: in.To, By: schemas.UsageBy(in.By)}
	if in.Since != "" {
		d, err := schemas.ParseDuration(in.Since)
		if err != nil {
			return schemas.Request{}, schemas.UsageError("since: %v", err)
		}
		u.Since = schemas.Duration(d)
	}
	return schemas.Request{Name: strings.Replace(in.Session, ".", "/", 1), Tenant: in.Tenant, Usage: u}, nil
}

type auditIn struct{ Waiting }

func (in *auditIn) request() (schemas.Request, error) { return schemas.Request{}, nil }
