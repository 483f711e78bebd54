package schemas

import (
	"fmt"
	"path"
	"time"
)

// State is where a session is in its life.
type State string

// The states of a session.
const (
	Starting   State = "starting"
	Running    State = "running"
	Suspending State = "suspending"
	Suspended  State = "suspended"
	Resuming   State = "resuming"
	Exited     State = "exited"
	Failed     State = "failed"
	Deleted    State = "deleted"
	// Template is the state of what is no session: what sessions are made from. It never runs. See Name.Template.
	Template State = "template"
)

// SessionRecord is the whole of what the system has agreed on about a session.
// It lives under one key, so one compare-and-swap is one transition, its event
// and the new state; the revisions of that key are the session's log.
type SessionRecord struct {
	UID     UID       `json:"uid"`
	Tenant  Tenant    `json:"tenant"`
	Session SessionID `json:"session"`
	Version uint64    `json:"version"` // 1 for the first record of the key, then without gaps
	Epoch   uint64    `json:"epoch"`   // grows with every change of owner, never falls
	State   State     `json:"state"`
	Since   time.Time `json:"since"` // when State was entered
	Created time.Time `json:"created"`
	Born    uint64    `json:"born_seq"` // the activity stream's last message then: older ones spoke of another session

	Class     string     `json:"class"`
	Driver    DriverName `json:"driver"`
	Keeps     Keeps      `json:"keeps,omitempty"` // what its snapshots have; KeepsMemory says what none means
	Host      HostID     `json:"host"`
	MadeBy    MadeBy     `json:"made_by"`           // "person" or "agent"
	Program   string     `json:"program"`           // the command's first word, for lists
	Spec      string     `json:"spec,omitempty"`    // how to run it, sealed for the hosts: it holds secrets
	Lineage   string     `json:"lineage,omitempty"` // where its snapshots go
	Idle      *Idle      `json:"idle,omitempty"`    // the session's own rule in place of its class's
	TTY       bool       `json:"tty,omitempty"`
	Disk      int64      `json:"disk,omitempty"`               // what its own files may take, bytes; 0: as the host has it
	Network   string     `json:"network,omitempty"`            // as run was told: host, private or none; not of every session
	AllowOut  []string   `json:"allow_out,omitempty"`          // all that a private network reaches outside, as CIDR, or none; anything if empty
	Publish   []string   `json:"publish,omitempty"`            // ports of a private network that its host has too, as [ADDR:]HOST:PORT
	Desktop   *Desktop   `json:"desktop,omitempty"`            // its display, if it has one
	Loosened  []string   `json:"loosened,omitempty"`           // what it may do beyond the default, a phrase each
	Root      *RootImage `json:"root,omitempty"`               // the container image below its own files, if it has one
	OnLoss    OnHostLoss `json:"on_host_loss,omitempty"`       // wait, also if empty, or resume
	OnBreaker OnBreaker  `json:"on_suspend_failure,omitempty"` // keep, also if empty, or stop
	OnResume  OnResume   `json:"on_resume_failure,omitempty"`  // keep, also if empty, or fresh
	Placement *Placement `json:"placement,omitempty"`          // what it asks of its hosts
	Needs     []Feature  `json:"needs,omitempty"`              // what the version of its host has to know
	// Exposed are its ports that aren't private. A fork has none, nor a session that is made under the name later.
	Exposed []ExposedPort `json:"exposed,omitempty"`
	// Labels are words of its users, which decide nothing. A fork begins with those of its origin.
	Labels map[string]string `json:"labels,omitempty"`
	Origin *Origin           `json:"origin,omitempty"` // of a fork
	// Shares are who may watch its terminal. A fork has none, nor a session that is made under the name later.
	Shares []Share `json:"shares,omitempty"`
	// Archived says that it was put into the archive: nothing but a request to resume it takes it out. It is
	// suspended, or has ended. An imported one is there from the beginning, and stays.
	Archived *Archived `json:"archived,omitempty"`

	Op         *Op       `json:"op,omitempty"`   // what a worker has to do
	Head       *Head     `json:"head,omitempty"` // the snapshot that the session goes on from
	Size       *Sizes    `json:"size,omitempty"` // of Head
	Boot       Boot      `json:"boot,omitempty"` // how it came to run: clean, resume, restart (files kept, memory not), fork, rollback, takeover
	Generation uint64    `json:"generation"`     // how often it was started, resumed, forked or rolled back
	Failure    *Failure  `json:"failure,omitempty"`
	Exit       *Exit     `json:"exit,omitempty"`
	Pause      *Pause    `json:"pause,omitempty"`    // the last one; Paused says whether it lasts
	Warnings   []Warning `json:"warnings,omitempty"` // of its last operations
	Notice     *Notice   `json:"notice,omitempty"`   // it was restarted without its memory, and no person has dismissed that
	Seq        uint64    `json:"activity_seq"`       // the last activity that a transition was decided on: older never wakes it
	// Triggered is the last trigger of an agent's that a checkpoint was started for: each is
	// acted on once at most.
	Triggered uint64 `json:"trigger_seq,omitempty"`

	Transition Transition `json:"transition"` // what made this revision
}

// Name gives the session's full name.
func (r SessionRecord) Name() Name { return Name{Tenant: r.Tenant, Session: r.Session} }

// PointsAt reports whether the session goes on from a snapshot, or is about to.
func (r SessionRecord) PointsAt(h Head) bool {
	for _, has := range r.Heads() {
		if has == h {
			return true
		}
	}
	return false
}

// Heads are the snapshots that the session goes on from, or may be about to.
func (r SessionRecord) Heads() (all []Head) {
	heads := []*Head{r.Head}
	notice := r.Notice
	if r.Op != nil {
		heads = append(heads, r.Op.Source, r.Op.Fallback)
		if r.Op.Notice != nil { // it has what the record's has, and more
			notice = r.Op.Notice
		}
	}
	if notice != nil {
		all = append(all, notice.Kept...)
	}
	for _, h := range heads {
		if h != nil {
			all = append(all, *h)
		}
	}
	return all
}

// Idle is a session's own idle rule.
type Idle struct {
	Never bool  `json:"never,omitempty"`
	Grace int64 `json:"grace_ms,omitempty"` // milliseconds without activity that counts
}

// The kinds of operation.
const (
	OpStart      = "start"
	OpSuspend    = "suspend"
	OpReap       = "reap" // kill what an image has replaced
	OpResume     = "resume"
	OpCheckpoint = "checkpoint"
	OpRemove     = "remove"
	OpKill       = "kill"    // end its processes, keep its record
	OpProve      = "prove"   // see whether what took another's place is well, else put that back
	OpBegin      = "begin"   // report whether what is recorded to run could be started
	OpMove       = "move"    // of a failure alone: the session went on where it was
	OpRewrite    = "rewrite" // write the source once more, whole, for a template
)

// Op is what the owner of a session has to do.
type Op struct {
	ID          string    `json:"id"`
	Kind        string    `json:"kind"`
	Claim       string    `json:"claim,omitempty"` // the worker process that works on it
	Attempts    int       `json:"attempts,omitempty"`
	Deadline    time.Time `json:"deadline"`         // when the sweep looks after it
	Idle        bool      `json:"idle,omitempty"`   // decided because nothing happened: anything that counts undoes it
	Seq         uint64    `json:"activity_seq"`     // the last activity that the decision knew
	Source      *Head     `json:"source,omitempty"` // the snapshot to restore
	Boot        Boot      `json:"boot,omitempty"`   // what the restore will be reported as
	Description string    `json:"description,omitempty"`
	RunID       string    `json:"run_id,omitempty"`
	Trigger     string    `json:"trigger,omitempty"`
	TriggerSeq  uint64    `json:"trigger_seq,omitempty"` // the activity that asked for it
	Shred       bool      `json:"shred,omitempty"`       // of a remove: have every host forget what it kept
	Tried       []HostID  `json:"tried,omitempty"`       // of a resume: hosts that could not do it just before
	Refused     []HostID  `json:"refused,omitempty"`     // of these, those where CRIU refused the image
	// Notice, of a start in the place of an image that can't be resumed, is what is said of it if
	// it starts.
	Notice *Notice `json:"notice,omitempty"`
	// Fallback is the snapshot of what a resume takes the place of: the session goes on from
	// it if what is restored isn't well within WithinMS milliseconds.
	Fallback *Head `json:"fallback,omitempty"`
	WithinMS int64 `json:"within_ms,omitempty"`
	// Move says that the session goes to another host, at once; see package session.
	Move *Move `json:"move,omitempty"`
	// Spec, of a start, is how the session is to be run from now on, if it starts: sealed, like
	// that of the record.
	Spec string `json:"spec,omitempty"`
	// Back says of a start in the place of what was suspended: if it fails, the session is suspended again.
	Back bool `json:"back,omitempty"`
	// Unplaced says of a resume, or of the first start of a session, that its host isn't chosen
	// yet: no host does it.
	Unplaced bool `json:"unplaced,omitempty"`
	// Only, of a start that is unplaced, is the host that was asked for; any that can if empty.
	Only HostID `json:"only,omitempty"`
	// Trace is the trace of whose part the client asked for it: the value of a header traceparent
	// (https://www.w3.org/TR/trace-context/#traceparent-header).
	Trace string `json:"trace,omitempty"`
}

// MaxWithin is how long what takes a session's place may be given to get well: nothing else
// can be done to the session meanwhile.
const MaxWithin = time.Hour

// Logged gives what a line of a log says about the session, for package slog: its name, what more there is to
// say, the operation that is under way or just ended, and its epoch.
func (r SessionRecord) Logged(more ...any) []any {
	op := r.Transition.Op
	if r.Op != nil {
		op = r.Op.ID
	}
	out := append([]any{"session", r.Name().String()}, more...)
	if op != "" {
		out = append(out, "op", op)
	}
	return append(out, "epoch", r.Epoch)
}

// Underway says for a person what is being done to the session; "" if nothing is.
func (r SessionRecord) Underway() string {
	switch {
	case r.Op == nil:
		return ""
	case r.Op.Move != nil:
		return "a move to host " + string(r.Op.Move.To) + " is under way"
	case r.Op.Kind != OpProve || r.Op.Fallback == nil:
		return r.Op.Kind + " is under way"
	}
	which, within := "another snapshot", time.Duration(r.Op.WithinMS)*time.Millisecond
	if r.Head != nil {
		which = "snapshot " + path.Base(r.Head.Name)
	}
	until := Duration(within).String() + " from its start"
	if !r.Since.IsZero() {
		until = "until " + r.Since.Add(within).UTC().Format(time.RFC3339) + " (" + Duration(within).String() + " again after a restart of its host's Diapause)"
	}
	return fmt.Sprintf("%s took its place and has %s to get well, else snapshot %s comes back", which, until, path.Base(r.Op.Fallback.Name))
}

// Sizes are the figures of a snapshot, in bytes.
type Sizes struct {
	At      time.Time `json:"at"`
	Logical int64     `json:"logical_bytes"` // what was captured
	New     int64     `json:"new_bytes"`     // of it, not in an earlier snapshot
	Stored  int64     `json:"stored_bytes"`  // what that took in the store
}

// OnBreaker says what happens to a session whose breaker opened.
type OnBreaker string

// The answers to an open breaker; none is BreakerKeep, or what the policy says.
const (
	BreakerKeep OnBreaker = "keep" // it runs on
	BreakerStop OnBreaker = "stop" // it is killed: what it had since its last snapshot is lost
)

// Failure is the last thing that went wrong, kept until it goes right.
type Failure struct {
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`  // what to do about it
	Op    string `json:"op"`              // the kind of operation that failed
	Kind  string `json:"kind,omitempty"`  // refused, transient, broken, taken, rehearsal
	Count int    `json:"count,omitempty"` // failures in a row of that kind of operation
	// Tried are the hosts that a resume failed on, one after the other.
	Tried []HostID `json:"tried,omitempty"`
	// Refused are those of them where CRIU refused the image.
	Refused []HostID `json:"refused,omitempty"`
	// Resumes is how many resumes in a row failed, each counted once for all hosts that tried it.
	Resumes int `json:"resumes,omitempty"`
	// Cause, of a failed resume, is why the image can't be resumed, if that is proven.
	Cause Cause `json:"cause,omitempty"`
	// Open says that the session isn't suspended for idleness any more: too many
	// suspends in a row failed. One that is asked for and works, or a reset, ends that.
	Open bool `json:"breaker_open,omitempty"`
	// Seq is the last activity that the decision knew, of a failed suspend: before the failure
	// is acted on it is looked whether the session was used since.
	Seq uint64    `json:"activity_seq,omitempty"`
	At  time.Time `json:"at"`
}

// FailureTaken is the kind of failure of a session whose place something else has taken.
const FailureTaken = "taken"

// FailureRehearsal is the kind of failure of a suspend whose rehearsal showed that the session
// would not come back as it is.
const FailureRehearsal = "rehearsal"

// Exit is how a session ended by itself.
type Exit struct {
	Code   int       `json:"code"` // 128 + Signal if a signal ended it
	Signal int       `json:"signal,omitempty"`
	Reason string    `json:"reason,omitempty"` // "out of memory" and the like
	At     time.Time `json:"at"`
}

// Transition is one change of a session: who made it, why, on what evidence,
// and what it set.
type Transition struct {
	ID       string         `json:"id"` // fresh for every attempt; finds an attempt whose answer was lost
	Type     TransitionType `json:"type"`
	Reason   string         `json:"reason"`
	Actor    string         `json:"actor"`
	Note     string         `json:"note,omitempty"` // what the actor says of itself
	Op       string         `json:"op,omitempty"`   // the operation it belongs to
	Evidence *Evidence      `json:"evidence,omitempty"`
	At       time.Time      `json:"at"`
	Stages   []Stage        `json:"stages,omitempty"` // what the operation's steps took
	Set      Set            `json:"set"`
}

// TransitionType names a change; session.Apply says which states each leaves
// and reaches.
type TransitionType string

// The types of transition.
const (
	TRun              TransitionType = "run"
	TForkNew          TransitionType = "fork"
	TTemplate         TransitionType = "template"  // a template is to be made of a snapshot
	TRewritten        TransitionType = "rewritten" // it has an image of its own
	TImported         TransitionType = "imported"  // made of a recording from elsewhere: it never ran here
	TClaimed          TransitionType = "claimed"
	TStarted          TransitionType = "started"
	TStartFailed      TransitionType = "start_failed"
	TSuspend          TransitionType = "suspend"
	TSuspendAborted   TransitionType = "suspend_aborted"
	TSuspendFailed    TransitionType = "suspend_failed"
	TSuspended        TransitionType = "suspended"
	TRevived          TransitionType = "revived"
	TReaped           TransitionType = "reaped"
	TResume           TransitionType = "resume"
	TRestart          TransitionType = "restart"
	TResumed          TransitionType = "resumed"
	TStartAgain       TransitionType = "start_again"
	TResumeAgain      TransitionType = "resume_again"
	TResumeFailed     TransitionType = "resume_failed"
	TCheckpoint       TransitionType = "checkpoint"
	TCheckpointed     TransitionType = "checkpointed"
	TCheckpointFailed TransitionType = "checkpoint_failed"
	TExited           TransitionType = "exited"
	TLost             TransitionType = "lost"
	TKill             TransitionType = "kill"
	TIdleRule         TransitionType = "idle_rule"
	TRemove           TransitionType = "remove"
	TDeferred         TransitionType = "deferred" // of a deleted session: its images are needed by a fork for now
	TRemoved          TransitionType = "removed"
	TShredded         TransitionType = "shredded"       // removed, the keys of its images first, and the hosts were told
	TResealed         TransitionType = "resealed"       // how it is to run was sealed again: those who may open it changed
	TTakenOver        TransitionType = "taken_over"     // its host is gone or was restarted: another, or that one, resumes its last snapshot
	TMoved            TransitionType = "moved"          // its host is gone before it did what was asked, or was still to be chosen: another does it
	TAdopted          TransitionType = "adopted"        // its host is gone, and its image was durable already
	TKept             TransitionType = "kept"           // its host came back and found it frozen: it may go on
	TBreakerReset     TransitionType = "breaker_reset"  // what failed before is forgotten: idleness counts again
	TProved           TransitionType = "proved"         // what took another's place is well, or was started
	TFellBack         TransitionType = "fell_back"      // it isn't: the session goes on from what it was before
	TMovedBack        TransitionType = "moved_back"     // it can't be resumed where it was moved to: it goes on where it was
	TGap              TransitionType = "gap"            // in a history alone: in place of revisions that can't be read
	TRedeployed       TransitionType = "redeployed"     // others started its container, or another one in its place: that is the session from now on
	TUnresumable      TransitionType = "unresumable"    // every host that fits has refused its image
	TDismissed        TransitionType = "dismissed"      // a person has seen that it was restarted without its memory
	TExposed          TransitionType = "exposed"        // who may reach its ports changed
	TLabelled         TransitionType = "labelled"       // its labels changed
	TShared           TransitionType = "shared"         // its terminal may be watched with a token
	TUnshared         TransitionType = "unshared"       // it may not any more, with one or with all
	TArchived         TransitionType = "archived"       // it was put into the archive
	TMemoryDropped    TransitionType = "memory_dropped" // of one in the archive: its memory and files are deleted, its recording stays
	TRedacted         TransitionType = "redacted"       // something was taken out of its recording
	TRecovered        TransitionType = "recovered"      // made again from what a host or the store knew, after the records went back
)

// Set is what a transition changes besides the state. With it, folding the
// transitions of a key gives the record back.
type Set struct {
	New     *NewSession `json:"new,omitempty"`
	Host    HostID      `json:"host,omitempty"`
	Claim   string      `json:"claim,omitempty"`
	Op      *Op         `json:"op,omitempty"`
	Head    *Head       `json:"head,omitempty"`
	Size    *Sizes      `json:"size,omitempty"`
	Failure *Failure    `json:"failure,omitempty"`
	Exit    *Exit       `json:"exit,omitempty"`
	Idle    *Idle       `json:"idle,omitempty"`
	Spec    string      `json:"spec,omitempty"`
	Pause   *Pause      `json:"pause,omitempty"`
	Root    *RootImage  `json:"root,omitempty"` // which one it is, once that is known
	// Exposed, of exposed, are all ports that aren't private from then on.
	Exposed []ExposedPort `json:"exposed,omitempty"`
	// Labels, of labelled, are all that it has from then on.
	Labels map[string]string `json:"labels,omitempty"`
	// Shares, of shared and unshared, are all that it has from then on.
	Shares []Share `json:"shares,omitempty"`
	// Archived, of archived, memory_dropped and imported, is why.
	Archived *Archived `json:"archived,omitempty"`
	// Needs, of memory_dropped, is what the version of its host has to know from then on.
	Needs    []Feature `json:"needs,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"` // of the operation that this ends
	// Recovered is the whole record, but for its version, that a recovery makes.
	Recovered *SessionRecord `json:"recovered,omitempty"`
}

// Origin is what a fork, or a template, began from, or an imported session.
type Origin struct {
	Session  string `json:"session,omitempty"`  // as it was called then
	Snapshot string `json:"snapshot,omitempty"` // of that session
	// Template is the template that a session was made from, if it was; the others say what that was made of.
	Template string `json:"template,omitempty"`
	// Imported is the recording that the session was made of, by its name, in place of those: it never ran here.
	Imported string `json:"imported,omitempty"`
}

// NewSession is what a session is made with.
type NewSession struct {
	UID       UID               `json:"uid"`
	Tenant    Tenant            `json:"tenant"`
	Session   SessionID         `json:"session"`
	Class     string            `json:"class"`
	Driver    DriverName        `json:"driver"`
	Keeps     Keeps             `json:"keeps,omitempty"`
	MadeBy    MadeBy            `json:"made_by"`
	Program   string            `json:"program"`
	Spec      string            `json:"spec,omitempty"`
	Lineage   string            `json:"lineage"`
	TTY       bool              `json:"tty,omitempty"`
	Disk      int64             `json:"disk,omitempty"`
	Network   string            `json:"network,omitempty"`   // as run was told: host, private or none; not of every session
	AllowOut  []string          `json:"allow_out,omitempty"` // all that a private network reaches outside, as CIDR, or none; anything if empty
	Publish   []string          `json:"publish,omitempty"`   // ports of a private network that its host has too, as [ADDR:]HOST:PORT
	Desktop   *Desktop          `json:"desktop,omitempty"`   // its display, if it has one
	Loosened  []string          `json:"loosened,omitempty"`  // what it may do beyond the default, a phrase each
	Root      *RootImage        `json:"root,omitempty"`      // the container image below its own files, if it has one
	OnLoss    OnHostLoss        `json:"on_host_loss,omitempty"`
	OnBreaker OnBreaker         `json:"on_suspend_failure,omitempty"`
	OnResume  OnResume          `json:"on_resume_failure,omitempty"`
	Placement *Placement        `json:"placement,omitempty"` // what it asks of its hosts
	Needs     []Feature         `json:"needs,omitempty"`     // what the version of its host has to know
	Labels    map[string]string `json:"labels,omitempty"`
	Origin    *Origin           `json:"origin,omitempty"`
	Born      uint64            `json:"born_seq"`
}

// Evidence is what a decision was made on.
type Evidence struct {
	Seq      uint64    `json:"activity_seq"`       // the last message of the activity stream that was known
	Last     string    `json:"last,omitempty"`     // the kind of the last activity that counted
	LastAt   time.Time `json:"last_at,omitzero"`   // and when it was accepted
	IdleMS   int64     `json:"idle_ms,omitempty"`  // how long nothing counted
	GraceMS  int64     `json:"grace_ms,omitempty"` // and how long that had to be
	Activity string    `json:"activity,omitempty"` // the activity that undid or woke
}

// Stage is one measured step of an operation.
type Stage struct {
	Name  string `json:"name"`
	MS    int64  `json:"ms"`
	Bytes int64  `json:"bytes,omitempty"`
	// Part says that it is one of the steps that follow each other without a gap: they add up
	// to durable of a suspend, to restore of a resume. Other stages go on beside them.
	Part bool `json:"part,omitempty"`
}
