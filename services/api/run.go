package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
)

func (s *maker) run(ctx context.Context, req request) (any, error) {
	n, err := newName(req.Name)
	if err != nil {
		return nil, err
	}
	r := req.Run
	if r != nil && r.Import != nil {
		return s.importer.run(ctx, n, req)
	}
	desktop, err := s.desktops.furnish(ctx, req.by, r)
	if err != nil {
		return nil, err
	}
	if r == nil || r.Program == "" {
		return nil, schemas.UsageError("run: no command given")
	}
	if err := complete(n, r); err != nil {
		return nil, err
	}
	if err := bounded(r); err != nil {
		return nil, err
	}
	if err := adoptable(r); err != nil {
		return nil, err
	}
	// What of the spec everyone may read, who may list the session.
	var open struct {
		Disk   int64             `json:"disk"`
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(r.Spec, &open); err != nil {
		return nil, schemas.UsageError("run: the spec isn't JSON: %v", err)
	}
	if open.Disk < 0 {
		return nil, schemas.UsageError("run: a disk of %d bytes", open.Disk)
	}
	if err := schemas.ValidateLabels(open.Labels); err != nil {
		return nil, schemas.UsageError("run: %v", err)
	}
	if err := s.furnish(ctx, req.by, r); err != nil {
		return nil, err
	}
	sealed, err := s.sealer.seal(ctx, n.Tenant, r.Spec)
	if err != nil {
		return nil, schemas.FailedError("", "seal the environment of session %s: %v", n, err)
	}
	if out, done, err := s.goOn(ctx, n, req, sealed); done {
		return out, err
	}
	var spec schemas.Spec
	_ = json.Unmarshal(r.Spec, &spec) // what can't be read no host runs
	fresh := schemas.NewSession{
		Class: r.Class, Driver: r.Driver, MadeBy: r.MadeBy, Program: r.Program, Spec: sealed, TTY: r.TTY, Disk: open.Disk,
		Network: spec.Network, AllowOut: spec.AllowOut, Publish: spec.Publish, Desktop: desktop, Loosened: spec.Loosened(), OnLoss: r.OnLoss, OnBreaker: r.OnBreaker, OnResume: r.OnResume, Placement: r.Placement,
		Needs: needs(spec), Labels: open.Labels,
	}
	if ref, ok := spec.RootImage(); ok {
		fresh.Root = &schemas.RootImage{Ref: ref}
	}
	op, err := s.sessions.newOp(ctx, schemas.OpStart)
	if err != nil {
		return nil, err
	}
	t := schemas.Transition{Type: schemas.TRun, Reason: "asked to run " + r.Program, Set: schemas.Set{Op: op, Idle: r.Idle}}
	out, err := s.create(ctx, n, req, fresh, t, nil)
	if err != nil {
		return nil, errors.Join(err, s.forgetNeverRan(ctx, n, req))
	}
	return out, nil
}

// complete gives what a request leaves out its defaults, and refuses what no session can be.
func complete(n schemas.Name, r *schemas.RunRequest) error {
	if r.Class == "" {
		r.Class = "web"
		if r.TTY {
			r.Class = "terminal"
		}
	}
	if _, ok := session.PolicyFor(r.Class, nil); !ok {
		return schemas.UsageError("class %q: want one of %s", r.Class, strings.Join(session.Classes(), ", "))
	}
	if r.OnBreaker != "" && r.OnBreaker != schemas.BreakerKeep && r.OnBreaker != schemas.BreakerStop {
		return schemas.UsageError("on suspend failure %q: want keep or stop", r.OnBreaker)
	}
	if !r.OnResume.Known() {
		return schemas.UsageError("on resume failure %q: want keep or fresh", r.OnResume)
	}
	if r.OnLoss != "" && r.OnLoss != schemas.LossWait && r.OnLoss != schemas.LossResume {
		return schemas.UsageError("on host loss %q: want wait or resume", r.OnLoss)
	}
	if err := checkPlacement(n, r.Placement); err != nil {
		return err
	}
	if r.MadeBy == "" {
		r.MadeBy = schemas.MadeByPerson
	}
	if r.MadeBy != schemas.MadeByPerson && r.MadeBy != schemas.MadeByAgent {
		return schemas.UsageError("made by %q: want person or agent", r.MadeBy)
	}
	return nil
}

// needs lists what the version of a host has to know to run a session. What a driver's own options ask for
// its versions have always known.
func needs(spec schemas.Spec) []schemas.Feature {
	if len(spec.Options) > 0 {
		return nil
	}
	return spec.Needs()
}

// checkPlacement refuses what no host can be.
func checkPlacement(n schemas.Name, p *schemas.Placement) error {
	if p == nil {
		return nil
	}
	for k := range p.Labels {
		if k == "" {
			return schemas.UsageError("run: a label of a host without a name")
		}
	}
	for _, other := range p.Apart {
		if !schemas.ValidToken(string(other)) || other == n.Session {
			return schemas.UsageError("apart from %q: want the name of another session", other)
		}
	}
	return nil
}

// treeDriver is the driver of process trees, which have no options of one driver alone.
const treeDriver = "criu"

// furnish writes what a session gets by default into the spec of a process tree that says nothing of it, so that it keeps that when the
// default changes: a network, and a terminal that is recorded.
func (s *maker) furnish(ctx context.Context, by Caller, r *schemas.RunRequest) error {
	var spec schemas.Spec
	if json.Unmarshal(r.Spec, &spec) != nil {
		return nil // what can't be read no host runs
	}
	if len(spec.Options) > 0 || r.Driver != "" && r.Driver != treeDriver {
		return nil
	}
	if spec.Network == "" {
		spec.Network = s.networkFor(by)
	}
	if spec.Record == "" && spec.TTY {
		hosts, err := s.hosts.fleet.Hosts(ctx)
		if err != nil {
			return err
		}
		spec.Record = recordBy(hosts)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return schemas.FailedError("", "encode the spec: %v", err)
	}
	r.Spec = data
	return nil
}

// networkFor gives the default network. A caller who is confined to a tenant gets none of the host's.
func (s *maker) networkFor(by Caller) string {
	if by.Tenant != "" && s.network == schemas.NetworkHost {
		return schemas.NetworkPrivate
	}
	return s.network
}

// recordBy says what of a terminal is recorded by default: its output, once no host has a version that deletes the keys of recordings,
// as it doesn't know them.
func recordBy(hosts []fleet.Host) string {
	for _, h := range hosts {
		if !h.Understands(schemas.FeatureRecording) {
			return ""
		}
	}
	return schemas.RecordOutput
}

// forgetNeverRan removes a session whose command never ran, so that a mistyped one
// doesn't take its name. The log keeps why.
func (s *maker) forgetNeverRan(ctx context.Context, n schemas.Name, req request) error {
	v, err := s.records.Get(ctx, n)
	if err != nil || v.State != schemas.Failed || v.Transition.Type != schemas.TStartFailed || v.Generation > 0 {
		return nil // it is another's, or there is something to keep
	}
	req.Reason = "its command never ran"
	_, err = s.ends.end(ctx, req, schemas.OpRemove, schemas.TRemove, req.Reason)
	return err
}
