package schemas

// WaitingKind says what kind of thing keeps a session from being suspended. New kinds may
// be added, none changes its meaning.
type WaitingKind string

// The kinds, with what the subject of each is.
const (
	WaitingOperation WaitingKind = "operation"   // one is under way: its kind, "checkpoint"
	WaitingNever     WaitingKind = "never"       // it is never suspended for idleness
	WaitingLease     WaitingKind = "lease"       // something says that it is in use: the lease, "busy.cpu"
	WaitingBreaker   WaitingKind = "breaker"     // too many suspends in a row failed
	WaitingRetry     WaitingKind = "retry"       // the last suspend failed a moment ago
	WaitingGrace     WaitingKind = "grace"       // it was used not long ago: the activity, "input"; none if nothing counted yet
	WaitingLife      WaitingKind = "life"        // it may run for some time in one go
	WaitingAwake     WaitingKind = "awake"       // it came back not long ago
	WaitingQuiet     WaitingKind = "quiet_hours" // nothing is suspended now
	WaitingWarning   WaitingKind = "warning"     // its users are warned first
	WaitingQuestion  WaitingKind = "question"    // its users are asked first
	WaitingQuota     WaitingKind = "quota"       // of one that is to be resumed: its tenant's quota is full
	WaitingQueue     WaitingKind = "queue"       // its operation waits for others of its host: the limit, "memory=1G"
	WaitingRoom      WaitingKind = "room"        // it was run, and no host has room for it yet
)
