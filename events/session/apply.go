package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// ErrIllegal is the answer to a transition that the session's state doesn't
// allow.
var ErrIllegal = errors.New("the session's state doesn't allow that")

// rule says what a transition leaves and reaches. An empty to keeps the state.
type rule struct {
	from  []schemas.State
	to    schemas.State
	owner bool // the owner changes: the epoch grows
	fresh bool // earlier warnings don't hold any more
	set   func(*schemas.SessionRecord, schemas.Transition)
}

// makes are the transitions that make a record.
var makes = []schemas.TransitionType{schemas.TRun, schemas.TForkNew, schemas.TTemplate, schemas.TImported}

// none stands for a key that has no record yet.
const none schemas.State = ""

var (
	alive = []schemas.State{schemas.Running, schemas.Suspending}
	ended = []schemas.State{schemas.Exited, schemas.Failed}
	// resting are the states in which a session has no processes, and may be in the archive.
	resting = []schemas.State{schemas.Suspended, schemas.Exited, schemas.Failed}
	onHost  = []schemas.State{schemas.Starting, schemas.Running, schemas.Suspending, schemas.Resuming}
	driven  = []schemas.State{schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming, schemas.Deleted, schemas.Failed, schemas.Template}
	living  = []schemas.State{schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming, schemas.Exited, schemas.Failed}
	stored  = append([]schemas.State{schemas.Template}, living...) // what has images, or may have
)

var rules = map[schemas.TransitionType]rule{
	schemas.TRun:              {from: []schemas.State{none, schemas.Deleted}, to: schemas.Starting, owner: true, set: setNew},
	schemas.TForkNew:          {from: []schemas.State{none, schemas.Deleted}, to: schemas.Resuming, owner: true, set: setNew},
	schemas.TTemplate:         {from: []schemas.State{none, schemas.Deleted}, to: schemas.Template, owner: true, set: setNew},
	schemas.TRewritten:        {from: []schemas.State{schemas.Template}, set: setHead},
	schemas.TImported:         {from: []schemas.State{none, schemas.Deleted}, to: schemas.Exited, owner: true, set: setImported},
	schemas.TClaimed:          {from: driven, set: setClaim},
	schemas.TStarted:          {from: []schemas.State{schemas.Starting}, to: schemas.Running, fresh: true, set: setRunning},
	schemas.TStartFailed:      {from: []schemas.State{schemas.Starting}, to: schemas.Failed, set: setStartFailed},
	schemas.TSuspend:          {from: []schemas.State{schemas.Running}, to: schemas.Suspending, owner: true, set: setSuspend},
	schemas.TSuspendAborted:   {from: []schemas.State{schemas.Suspending}, to: schemas.Running, set: setDone},
	schemas.TSuspendFailed:    {from: []schemas.State{schemas.Suspending}, to: schemas.Running, set: setDone},
	schemas.TSuspended:        {from: []schemas.State{schemas.Suspending}, to: schemas.Suspended, fresh: true, set: setHead},
	schemas.TRevived:          {from: []schemas.State{schemas.Suspended}, to: schemas.Running, owner: true, fresh: true, set: setDone},
	schemas.TReaped:           {from: []schemas.State{schemas.Suspended}, set: setDone},
	schemas.TResume:           {from: []schemas.State{schemas.Suspended, schemas.Failed, schemas.Exited}, to: schemas.Resuming, owner: true, set: setOp},
	schemas.TRestart:          {from: append([]schemas.State{schemas.Suspended}, ended...), to: schemas.Starting, owner: true, set: setOp},
	schemas.TRedeployed:       {from: append([]schemas.State{schemas.Suspended}, ended...), to: schemas.Starting, owner: true, set: setOp},
	schemas.TResumed:          {from: []schemas.State{schemas.Resuming}, to: schemas.Running, set: setRunning},
	schemas.TStartAgain:       {from: alive, to: schemas.Starting, owner: true, set: setAgain},
	schemas.TResumeAgain:      {from: alive, to: schemas.Resuming, owner: true, set: setAgain},
	schemas.TResumeFailed:     {from: []schemas.State{schemas.Resuming}, to: schemas.Suspended, set: setResumeFailed},
	schemas.TCheckpoint:       {from: []schemas.State{schemas.Running}, set: setOp},
	schemas.TCheckpointed:     {from: []schemas.State{schemas.Running}, fresh: true, set: setHead},
	schemas.TCheckpointFailed: {from: []schemas.State{schemas.Running}, set: setDone},
	schemas.TKill:             {from: []schemas.State{schemas.Running}, set: setOp},
	schemas.TExited:           {from: alive, to: schemas.Exited, set: setExit},
	schemas.TLost:             {from: onHost, to: schemas.Failed, set: setDone},
	schemas.TIdleRule:         {from: living, set: func(r *schemas.SessionRecord, t schemas.Transition) { r.Idle = t.Set.Idle }},
	schemas.TRemove:           {from: stored, to: schemas.Deleted, owner: true, set: setOp},
	schemas.TDeferred:         {from: []schemas.State{schemas.Deleted}},
	schemas.TRemoved:          {from: []schemas.State{schemas.Deleted}, set: setDone},
	schemas.TShredded:         {from: []schemas.State{schemas.Deleted}, set: setDone},
	schemas.TResealed:         {from: stored, set: func(r *schemas.SessionRecord, t schemas.Transition) { r.Spec = t.Set.Spec }},
	schemas.TTakenOver:        {from: alive, to: schemas.Resuming, owner: true, set: setTakenOver},
	schemas.TMoved:            {from: []schemas.State{schemas.Starting, schemas.Resuming, schemas.Template, schemas.Deleted}, owner: true, set: setOp},
	schemas.TAdopted:          {from: []schemas.State{schemas.Suspending}, to: schemas.Suspended, owner: true, fresh: true, set: setHead},
	schemas.TKept:             {from: alive},
	schemas.TBreakerReset:     {from: []schemas.State{schemas.Running}, set: func(r *schemas.SessionRecord, _ schemas.Transition) { r.Failure = nil }},
	schemas.TProved:           {from: []schemas.State{schemas.Running}, set: setDone},
	schemas.TFellBack:         {from: []schemas.State{schemas.Running, schemas.Resuming}, to: schemas.Resuming, owner: true, set: setFellBack},
	schemas.TMovedBack:        {from: []schemas.State{schemas.Resuming}, owner: true, set: setMovedBack},
	schemas.TUnresumable:      {from: []schemas.State{schemas.Suspended}, set: setUnresumable},
	schemas.TDismissed:        {from: living, set: func(r *schemas.SessionRecord, _ schemas.Transition) { r.Notice = nil }},
	schemas.TExposed:          {from: living, set: func(r *schemas.SessionRecord, t schemas.Transition) { r.Exposed = t.Set.Exposed }},
	schemas.TLabelled:         {from: living, set: func(r *schemas.SessionRecord, t schemas.Transition) { r.Labels = t.Set.Labels }},
	schemas.TShared:           {from: living, set: setShares},
	schemas.TUnshared:         {from: living, set: setShares},
	schemas.TArchived:         {from: resting, set: func(r *schemas.SessionRecord, t schemas.Transition) { r.Archived = t.Set.Archived }},
	schemas.TMemoryDropped:    {from: resting, set: setMemoryDropped},
	schemas.TRedacted:         {from: living},
	schemas.TRecovered:        {from: append([]schemas.State{none, schemas.Deleted}, stored...), set: setRecovered},
}

// Apply gives the record that the transition makes of r; the zero record stands
// for a key that has none. It never changes r. An error wraps ErrIllegal.
func Apply(r schemas.SessionRecord, t schemas.Transition) (schemas.SessionRecord, error) {
	rule, ok := rules[t.Type]
	if !ok {
		return r, fmt.Errorf("transition %q: no such type: %w", t.Type, ErrIllegal)
	}
	if !slices.Contains(rule.from, r.State) {
		return r, fmt.Errorf("%s a session that is %s: %w", t.Type, orNone(r.State), ErrIllegal)
	}
	if slices.Contains(makes, t.Type) && t.Set.New == nil {
		return r, fmt.Errorf("%s without a session: %w", t.Type, ErrIllegal)
	}
	if t.Type == schemas.TRecovered && (t.Set.Recovered == nil || t.Set.Recovered.Epoch <= r.Epoch) {
		return r, fmt.Errorf("%s without a record of a higher epoch than %d: %w", t.Type, r.Epoch, ErrIllegal)
	}
	if t.Type == schemas.TArchived && (t.Set.Archived == nil || Unarchivable(r) != "") {
		return r, fmt.Errorf("%s session %s: %w", t.Type, r.Name(), ErrIllegal)
	}
	if t.Type == schemas.TMemoryDropped && (t.Set.Archived == nil || !droppable(r)) {
		return r, fmt.Errorf("%s session %s: %w", t.Type, r.Name(), ErrIllegal)
	}
	out := r
	out.Version++
	if rule.owner {
		out.Epoch++
	}
	if rule.to != "" && rule.to != r.State {
		out.State, out.Since = rule.to, t.At
	}
	if rule.set != nil {
		rule.set(&out, t)
	}
	if !slices.Contains(resting, out.State) {
		setInUse(&out)
	}
	if t.Set.Root != nil {
		out.Root = t.Set.Root
	}
	if rule.fresh || len(t.Set.Warnings) > 0 {
		out.Warnings = t.Set.Warnings
	}
	if t.Evidence != nil {
		out.Seq = max(out.Seq, t.Evidence.Seq)
	}
	out.Transition = t
	return out, nil
}

// Can reports whether Apply would take a transition of type t from state s.
func Can(s schemas.State, t schemas.TransitionType) bool { return slices.Contains(rules[t].from, s) }

func orNone(s schemas.State) string {
	if s == none {
		return "not there"
	}
	return string(s)
}

func setNew(r *schemas.SessionRecord, t schemas.Transition) {
	n := t.Set.New
	*r = schemas.SessionRecord{
		Version: r.Version, Epoch: r.Epoch, State: r.State, Since: t.At, Created: t.At,
		UID: n.UID, Tenant: n.Tenant, Session: n.Session, Class: n.Class, Driver: n.Driver, Keeps: n.Keeps, MadeBy: n.MadeBy,
		Program: n.Program, Spec: n.Spec, Lineage: n.Lineage, TTY: n.TTY, Disk: n.Disk,
		Network: n.Network, AllowOut: n.AllowOut, Publish: n.Publish, Desktop: n.Desktop, Loosened: n.Loosened, Root: n.Root, OnLoss: n.OnLoss, OnBreaker: n.OnBreaker, OnResume: n.OnResume, Placement: n.Placement, Needs: n.Needs, Labels: n.Labels, Origin: n.Origin, Born: n.Born,
		Host: t.Set.Host, Op: t.Set.Op, Idle: t.Set.Idle, Head: t.Set.Head, Size: t.Set.Size,
	}
}

func setImported(r *schemas.SessionRecord, t schemas.Transition) {
	setNew(r, t)
	r.Exit = t.Set.Exit
	if r.TTY {
		r.Archived = t.Set.Archived
	}
}

// setSuspend has the record say why the session is suspended.
func setSuspend(r *schemas.SessionRecord, t schemas.Transition) {
	setOp(r, t)
	r.Pause = t.Set.Pause
}

func setOp(r *schemas.SessionRecord, t schemas.Transition) {
	r.Op = t.Set.Op
	if r.Op != nil {
		r.Triggered = max(r.Triggered, r.Op.TriggerSeq)
	}
	if t.Set.Host != "" {
		r.Host = t.Set.Host
	}
	if r.State == schemas.Starting {
		r.Exit = nil
	}
	if keptWhileRunning(r.Failure) { // it was told for as long as what it led to ran
		r.Failure = nil
	}
}

// keptWhileRunning reports whether a failure is one that led to what runs now.
func keptWhileRunning(f *schemas.Failure) bool {
	return f != nil && (f.Op == schemas.OpProve || f.Op == schemas.OpMove)
}

// setResumeFailed leaves a session that had ended before it was to go on from a snapshot
// as it was: nothing wakes that.
func setResumeFailed(r *schemas.SessionRecord, t schemas.Transition) {
	setDone(r, t)
	if r.Exit != nil {
		r.State = schemas.Exited
	}
}

// setUnresumable notes of a session whose resume failed that no host can do it.
func setUnresumable(r *schemas.SessionRecord, t schemas.Transition) {
	if r.Failure != nil && r.Failure.Op == schemas.OpResume {
		r.Failure = t.Set.Failure
	}
}

// setStartFailed leaves a session suspended whose place something else was to take.
func setStartFailed(r *schemas.SessionRecord, t schemas.Transition) {
	back, pause := r.Op != nil && r.Op.Back, r.Pause
	setDone(r, t)
	r.Warnings = slices.DeleteFunc(slices.Clone(r.Warnings), func(w schemas.Warning) bool { return w.Code == schemas.WarnRedeployed })
	if back {
		r.State, r.Pause = schemas.Suspended, pause
	}
}

// setAgain takes back a start or resume that was recorded and never ran.
func setAgain(r *schemas.SessionRecord, t schemas.Transition) {
	why := r.Failure
	setOp(r, t)
	r.Failure, r.Generation = why, max(r.Generation, 1)-1
	if r.Op != nil && r.Op.Notice != nil && len(r.Op.Notice.Kept) > 0 { // it was never started in place of its image
		n := *r.Op.Notice
		last := len(n.Kept) - 1
		r.Head, r.Notice = &n.Kept[last], nil
		if n.Kept = n.Kept[:last]; last > 0 {
			r.Notice = &n
		}
	}
}

func setClaim(r *schemas.SessionRecord, t schemas.Transition) {
	if r.Op == nil {
		return
	}
	op := *r.Op
	op.Claim = t.Set.Claim
	op.Attempts++
	r.Op = &op
}

func setRunning(r *schemas.SessionRecord, t schemas.Transition) {
	r.Boot = schemas.BootClean
	if r.Op != nil && r.Op.Boot != "" {
		r.Boot = r.Op.Boot
	}
	if r.Op != nil && r.Op.Source != nil {
		r.Head = r.Op.Source
	}
	if r.Op != nil && r.Op.Spec != "" {
		r.Spec = r.Op.Spec
	}
	if r.Op != nil && r.Op.Notice != nil { // it doesn't go on from its image, which the notice keeps
		r.Notice, r.Head, r.Size = r.Op.Notice, nil, nil
	}
	if t.Set.Size != nil {
		r.Size = t.Set.Size
	}
	r.Generation++
	r.Op, r.Exit = t.Set.Op, nil
	if t.Type == schemas.TStarted { // a resume may turn out not to have run
		r.Pause = nil
	}
	if !keptWhileRunning(r.Failure) { // that is why this runs
		r.Failure = nil
	}
}

// setTakenOver makes what another host goes on from the one to go on from, also if
// another was being tried in its place when its host was lost.
func setTakenOver(r *schemas.SessionRecord, t schemas.Transition) {
	setOp(r, t)
	r.Pause = t.Set.Pause
	if r.Op != nil && r.Op.Source != nil {
		r.Head = r.Op.Source
	}
}

// setMovedBack has a session go on where it was before a move.
func setMovedBack(r *schemas.SessionRecord, t schemas.Transition) {
	setOp(r, t)
	r.Failure = t.Set.Failure
}

// setFellBack makes what was to be replaced the one to go on from again.
func setFellBack(r *schemas.SessionRecord, t schemas.Transition) {
	setOp(r, t)
	r.Failure = t.Set.Failure
	if r.Op != nil {
		r.Head = r.Op.Source
	}
}

// setHead makes a new snapshot the one to go on from. The op that it leaves is
// what remains to be done: the kill, after a suspend; nothing, after a
// checkpoint. A suspend's pause begins now.
func setHead(r *schemas.SessionRecord, t schemas.Transition) {
	r.Head, r.Size, r.Op, r.Failure = t.Set.Head, t.Set.Size, t.Set.Op, nil
	if r.State == schemas.Suspended && r.Pause != nil {
		r.Pause = &schemas.Pause{Reason: r.Pause.Reason, At: t.At}
	}
}

func setExit(r *schemas.SessionRecord, t schemas.Transition) {
	r.Exit, r.Op, r.Pause = t.Set.Exit, nil, nil
}

func setDone(r *schemas.SessionRecord, t schemas.Transition) {
	r.Op = nil
	switch {
	case t.Type == schemas.TCheckpointFailed && r.Failure != nil && r.Failure.Op == schemas.OpSuspend:
		// How often suspends failed still counts; the log and the caller know of this.
	case t.Set.Failure != nil:
		r.Failure = t.Set.Failure
	case t.Type == schemas.TReaped, t.Type == schemas.TRemoved, t.Type == schemas.TShredded, t.Type == schemas.TSuspendAborted:
	default:
		r.Failure = nil
	}
	switch t.Type {
	case schemas.TRemoved, schemas.TShredded:
		r.Spec, r.Head, r.Size, r.Notice = "", nil, nil, nil
	case schemas.TStartFailed, schemas.TSuspendAborted, schemas.TSuspendFailed, schemas.TRevived, schemas.TLost:
		r.Pause = nil // a later one has another reason
	}
}

// setRecovered takes a whole record from a host or the store, which know more than a log
// that was put back to an earlier state. The version goes on from the log's own.
func setRecovered(r *schemas.SessionRecord, t schemas.Transition) {
	version := r.Version
	*r = *t.Set.Recovered
	r.Version, r.Since = version, t.At
	r.Exposed, r.Shares = nil, nil // what was known may be older than the change that made a port private, or ended a share
}

func setShares(r *schemas.SessionRecord, t schemas.Transition) { r.Shares = t.Set.Shares }

// BootOf says what going on from the record's head will be: a fork, until the
// session has a snapshot in its own lineage; else a resume, or a restart where its
// snapshots have no memory: a cold start is never called a resume.
func BootOf(r schemas.SessionRecord) schemas.Boot {
	switch {
	case r.Head != nil && !strings.HasPrefix(r.Head.Name, string(r.Tenant)+"/"+r.Lineage+"/"):
		return schemas.BootFork
	case !r.KeepsMemory():
		return schemas.BootRestart
	}
	return schemas.BootResume
}
