package schemas

import "time"

// View is a session as clients see it: what `diapause ls` and `show` print with
// --json. The names are stable.
type View struct {
	Name           string            `json:"name"` // tenant/id, or id for the default tenant
	Tenant         Tenant            `json:"tenant"`
	UID            UID               `json:"uid"`
	State          State             `json:"state"`
	Status         string            `json:"status,omitempty"` // of a running container that is paused, created, exited, restarting or unhealthy: that word; "archived" of what is in the archive
	Since          time.Time         `json:"since"`
	Class          string            `json:"class"`
	Driver         DriverName        `json:"driver"`
	Host           HostID            `json:"host"`
	Program        string            `json:"program"`
	Container      *Container        `json:"container,omitempty"` // what it is on its host, unless that is a process tree; none while it is suspended
	MadeBy         MadeBy            `json:"made_by"`
	TTY            bool              `json:"tty"`
	Network        string            `json:"network,omitempty"`   // as run was told: host, private or none; not of every session
	AllowOut       []string          `json:"allow_out,omitempty"` // all that a private network reaches outside, as CIDR, or none; anything if empty
	Publish        []string          `json:"publish,omitempty"`   // ports of a private network that its host has too, as [ADDR:]HOST:PORT
	Desktop        *DesktopView      `json:"desktop,omitempty"`   // its display, if it has one
	Labels         map[string]string `json:"labels,omitempty"`
	Origin         *Origin           `json:"origin,omitempty"`   // of a fork
	Exposed        []ExposedPort     `json:"exposed,omitempty"`  // the ports that others than the bearers of its tenant's tokens and logins may reach, or not by a login
	Shares         []ShareView       `json:"shares,omitempty"`   // with which its terminal may be watched
	Archived       *Archived         `json:"archived,omitempty"` // since when it is in the archive, and why
	Listens        []uint16          `json:"listens,omitempty"`  // the TCP ports at which its processes take connections, unless it is a container; none unless it runs
	Loosened       []string          `json:"loosened,omitempty"` // what it may do beyond the default, a phrase each
	Root           *RootImage        `json:"root,omitempty"`     // the container image below its own files, if it has one
	OnLoss         OnHostLoss        `json:"on_host_loss,omitempty"`
	HostGone       *time.Time        `json:"host_gone,omitempty"` // since when its host is known to be gone
	PID            int               `json:"pid"`                 // of the leader on its host; 0 unless it runs
	RSSBytes       int64             `json:"rss_bytes"`           // of all its processes; 0 unless it runs
	Disk           int64             `json:"disk,omitempty"`      // what its own files may take, bytes, as run was told
	Processes      int               `json:"processes"`           // 0 unless it runs
	IdleSeconds    float64           `json:"idle_seconds"`        // since activity that counts; 0 unless it runs
	Boot           Boot              `json:"boot"`
	Generation     uint64            `json:"generation"`
	Epoch          uint64            `json:"epoch"`
	Version        uint64            `json:"version"`
	Created        time.Time         `json:"created"`
	LastTransition TransitionView    `json:"last_transition"`
	Snapshot       *SnapshotView     `json:"snapshot,omitempty"`  // the head
	StoredBytes    int64             `json:"stored_bytes"`        // what all its snapshots take in the store
	Op             string            `json:"op,omitempty"`        // the operation under way
	Underway       string            `json:"underway,omitempty"`  // the same for a person, where there is more to say
	Queue          *QueuePlace       `json:"queue,omitempty"`     // of an operation that waits for others of its host, or a session that waits for a host
	MadeRoom       []string          `json:"made_room,omitempty"` // of an answer to run and fork: the sessions that were suspended to make room for it
	Placement      *Placement        `json:"placement,omitempty"` // what it asks of its hosts
	Moved          *Moved            `json:"moved,omitempty"`     // of an answer to move
	Failure        *Failure          `json:"failure,omitempty"`
	Exit           *Exit             `json:"exit,omitempty"`
	Pause          *Pause            `json:"pause,omitempty"`    // while it is suspended: why, and since when
	Warnings       []Warning         `json:"warnings,omitempty"` // of its last operations
	Wake           []WakeRule        `json:"wake,omitzero"`      // which requests from outside resume it, where its policy says that
	Notice         *Notice           `json:"notice,omitempty"`   // it was restarted without its memory, and no person has dismissed that
}

// TransitionView is a transition as clients see it.
type TransitionView struct {
	Version  uint64         `json:"version"`
	Type     TransitionType `json:"type"`
	State    State          `json:"state"` // that it led to
	Reason   string         `json:"reason"`
	Actor    string         `json:"actor"`          // who is proved to have made it: a NATS user, a part (scheduler@HOST), or unverified
	Note     string         `json:"note,omitempty"` // what the actor says of itself, such as cli:root
	At       time.Time      `json:"at"`
	Op       string         `json:"op,omitempty"`
	Evidence *Evidence      `json:"evidence,omitempty"`
	Stages   []Stage        `json:"stages,omitempty"`
	Joined   []Joined       `json:"joined,omitempty"` // in a history, and of the decision in an explanation: who asked for the same while it was under way
}

// Joined is a caller that asked for what another had started.
type Joined struct {
	Actor  string    `json:"actor"`
	Note   string    `json:"note,omitempty"`
	Reason string    `json:"reason"` // that was given, if any
	At     time.Time `json:"at"`
}

// SnapshotView is a snapshot as clients see it.
type SnapshotView struct {
	ID           string    `json:"id"`
	Parent       string    `json:"parent,omitempty"` // the id of the one that it follows; of a fork's first one, of the session that it was made of
	At           time.Time `json:"at"`
	LogicalBytes int64     `json:"logical_bytes"`
	NewBytes     int64     `json:"new_bytes"`
	StoredBytes  int64     `json:"stored_bytes"`
	Trigger      string    `json:"trigger,omitempty"`
	Description  string    `json:"description,omitempty"`
	RunID        string    `json:"run_id,omitempty"`
	By           string    `json:"by,omitempty"`       // who had it made, of those that are listed
	Reason       string    `json:"reason,omitempty"`   // and why
	Restores     int       `json:"restores,omitempty"` // how often the session came back from it
	Head         bool      `json:"head,omitempty"`
	Error        string    `json:"error,omitempty"` // why it can't be used
}

// Explanation says what stands between a session and its suspend or resume.
type Explanation struct {
	Name        string         `json:"name"`
	State       State          `json:"state"`
	Text        string         `json:"text"` // one line for a person
	IdleSeconds float64        `json:"idle_seconds"`
	GraceMS     int64          `json:"grace_ms"`
	Blockers    []WaitingFor   `json:"blockers"` // what keeps it from being suspended
	Next        time.Time      `json:"next,omitzero"`
	Last        TransitionView `json:"last_transition"`
	// Decided is the last transition that was decided on evidence, if that isn't the last.
	Decided    *TransitionView `json:"last_decision,omitempty"`
	Score      float64         `json:"score,omitempty"`     // of a running one: the lowest goes first where there is no room for all
	Heard      uint64          `json:"heard_seq,omitempty"` // the last message of the activity stream that was heard for it
	LastUse    string          `json:"last_use,omitempty"`  // the kind of the last activity that counted
	LastUseSeq uint64          `json:"last_use_seq,omitempty"`
	Policies   []string        `json:"policies,omitempty"` // that hold, the uppermost last: "class:web version 3"; the first may be "defaults version 2: grace by preset terminals"
	// SnapshotAt is when its last snapshot was taken, and Every how old the policy lets that get while it
	// runs: what is lost at most if its host is.
	SnapshotAt time.Time `json:"snapshot_at,omitzero"`
	Every      Duration  `json:"checkpoint_every,omitempty"`
}

// WaitingFor is one reason why a session isn't suspended, or why its operation waits.
type WaitingFor struct {
	Kind    WaitingKind `json:"kind"`
	Subject string      `json:"subject,omitempty"` // by Kind: the operation, the lease, the activity that was the last
	What    string      `json:"what"`              // one line for a person
	Until   time.Time   `json:"until,omitzero"`    // unknown if zero
}

// Observed is what a host sees of its sessions, by uid.
type Observed struct {
	PID       int   `json:"pid"`
	RSSBytes  int64 `json:"rss_bytes"`
	Processes int   `json:"processes"`
	// Listens are the TCP ports at which it takes connections, unless it is a container.
	Listens []uint16 `json:"listens,omitempty"`
	// Watching is how many watch its terminal by each share, by its id.
	Watching map[string]int `json:"watching,omitempty"`
	// Status is what it is, in a word, where it isn't simply running.
	Status string `json:"status,omitempty"`
	// Container is what it is on its host, unless that is a process tree.
	Container *Container `json:"container,omitempty"`
	// Queue is where its operation stands that waits for others of the host.
	Queue *QueuePlace `json:"queue,omitempty"`
	// Unchanged says that it has executed nothing since its last snapshot was taken.
	Unchanged bool `json:"unchanged,omitempty"`
}

// Request is what a client asks of the API; each verb uses the fields it needs.
type Request struct {
	Name        string           `json:"name,omitempty"`
	Actor       string           `json:"actor,omitempty"` // what the caller says of itself: a note beside the actor
	Reason      string           `json:"reason,omitempty"`
	Wait        Duration         `json:"wait,omitempty"` // how long the answer may take
	Run         *RunRequest      `json:"run,omitempty"`
	To          string           `json:"to,omitempty"`      // the new name of a fork
	Publish     []string         `json:"publish,omitempty"` // of fork: in place of the ports that its origin publishes; none alone for no ports
	Snapshot    string           `json:"snapshot,omitempty"`
	Within      Duration         `json:"within,omitempty"` // of replace: how long what comes may take to be well
	Clean       bool             `json:"clean,omitempty"`  // of resume: start its command again
	Description string           `json:"description,omitempty"`
	RunID       string           `json:"run_id,omitempty"`
	Tenant      Tenant           `json:"tenant,omitempty"`   // of list: only this one; of the verbs of keys: every tenant's if empty
	Reset       bool             `json:"reset,omitempty"`    // of suspend: not now, but close the breaker
	Shred       bool             `json:"shred,omitempty"`    // of rm: the keys of its images first, and have every host forget it
	Key         *KeyRequest      `json:"key,omitempty"`      // of the verbs of keys
	Store       *StoreRequest    `json:"store,omitempty"`    // of the verbs of the store
	Usage       *UsageRequest    `json:"usage,omitempty"`    // of usage
	Policy      *PolicyRequest   `json:"policy,omitempty"`   // of the verbs of policies
	Host        HostID           `json:"host,omitempty"`     // of move: where to; of the verbs of hosts: which
	Force       bool             `json:"force,omitempty"`    // of host_drain: also what is in use
	List        *ListRequest     `json:"list,omitempty"`     // of list
	Page        *PageRequest     `json:"page,omitempty"`     // of other verbs that answer with a list: which part of it; all of it if nil
	Activity    *ActivityRequest `json:"activity,omitempty"` // of activity
	Token       *TokenRequest    `json:"token,omitempty"`    // of the verbs of tokens
	Expose      *ExposeRequest   `json:"expose,omitempty"`   // of expose
	Reach       *ReachRequest    `json:"reach,omitempty"`    // of reach
	Listen      *ListenRequest   `json:"listen,omitempty"`   // of ingress_add and ingress_rm
	Label       *LabelRequest    `json:"label,omitempty"`    // of label
	Share       *ShareRequest    `json:"share,omitempty"`    // of share and unshare
	Redact      *RedactRequest   `json:"redact,omitempty"`   // of redact
	// Once is of run and fork: the caller's own word for what it asks. Asked again with the same word, the
	// verb answers with the session that it has made, and makes none.
	Once string `json:"once,omitempty"`
}

// ListRequest says which sessions are listed; all if it says nothing.
type ListRequest struct {
	States []State `json:"states,omitempty"`
	Class  string  `json:"class,omitempty"`
	Host   HostID  `json:"host,omitempty"`
	// Labels are "K=V", or "K" with any value: of sessions that have all of them.
	Labels []string `json:"labels,omitempty"`
	// Archived says what of sessions in the archive: none leaves them out, only leaves out the others; all of both if empty.
	Archived ListArchived `json:"archived,omitempty"`
	Limit    int          `json:"limit,omitempty"` // how many at most; no limit if 0
	// After is the name of the last session of the page before: those that come after it are listed, in the
	// order of tenants and names.
	After string `json:"after,omitempty"`
}

// ActivityRequest is activity that the API is to publish of a session that exists. Why is the request's reason.
type ActivityRequest struct {
	Kind     Kind     `json:"kind"`
	Key      string   `json:"key,omitempty"`      // of a lease, or the trigger of an agent's
	TTL      Duration `json:"ttl,omitempty"`      // of a lease
	Released bool     `json:"released,omitempty"` // the lease ends now
	Action   string   `json:"action,omitempty"`   // of an agent's
}

// RunRequest is how a session is to run. It holds secrets and travels only on
// the connection; the record keeps it sealed.
type RunRequest struct {
	Class     string     `json:"class,omitempty"`
	Driver    DriverName `json:"driver,omitempty"`
	MadeBy    MadeBy     `json:"made_by,omitempty"`
	Idle      *Idle      `json:"idle,omitempty"`
	TTY       bool       `json:"tty,omitempty"`
	OnLoss    OnHostLoss `json:"on_host_loss,omitempty"`       // wait, also if empty, or resume
	OnBreaker OnBreaker  `json:"on_suspend_failure,omitempty"` // keep, also if empty, or stop
	OnResume  OnResume   `json:"on_resume_failure,omitempty"`  // keep, also if empty, or fresh
	Host      HostID     `json:"host,omitempty"`               // where to begin; any that can if empty
	Placement *Placement `json:"placement,omitempty"`          // what it asks of its hosts, each time
	Program   string     `json:"program"`
	Spec      []byte     `json:"spec"` // of the driver, JSON
	// NoWait has a session with a terminal refused if no host has room for it; else it is made and
	// waits for a host.
	NoWait bool `json:"no_wait,omitempty"`
	// Existing says that it is on Host already. A session of that name that doesn't run may go
	// on with it then.
	Existing Existing `json:"existing,omitempty"`
	Of       UID      `json:"of,omitempty"` // of what was a session's own: of which
	// Desktop has it be one: the server completes Spec, Class and Program.
	Desktop *DesktopRequest `json:"desktop,omitempty"`
	// Import has it be a recording that Host has taken in, in place of all but Name.
	Import *ImportRequest `json:"import,omitempty"`
}

// Existing says of what is on a host already why it is to become a session.
type Existing string

// What is on a host already.
const (
	ExistingChosen Existing = "chosen" // the caller named it
	ExistingAsks   Existing = "asks"   // it asks to be the session of that name
	ExistingOwn    Existing = "own"    // it is what the session had, and others have started it
)
