package schemas

import "time"

// PolicyRequest is what is asked about policies.
type PolicyRequest struct {
	// Scope is whose policy; of get everybody's if empty.
	Scope string `json:"scope,omitempty"`
	// Policy is of set the whole new document; of test and simulate what takes the
	// document's place, only to see what it would do.
	Policy *Policy `json:"policy,omitempty"`
	// Version is of set what is replaced, 0 for none; the last, whichever it is, if absent.
	Version *uint64 `json:"version,omitempty"`
	// Absent is of set: it is refused if the scope has a policy.
	Absent bool `json:"absent,omitempty"`
	// Since is of simulate how far it goes back.
	Since Duration `json:"since,omitempty"`
	// Lives has simulate say what single sessions would have done, too.
	Lives bool `json:"lives,omitempty"`
}

// PolicyView is the policy of a scope as clients see it.
type PolicyView struct {
	Scope     PolicyScope `json:"scope"`
	Version   uint64      `json:"version"` // 0 if nothing is set
	Policy    Policy      `json:"policy"`  // what is set
	Effective Policy      `json:"effective"`
	// Origins says of each part of Effective which policy it is from: a scope, or "built in",
	// "run --idle", "up --retention", or of a default "preset terminals", "variable SANDBOX_TIMEOUT_SECONDS".
	Origins map[string]string `json:"origins,omitempty"`
	// Defaults is of the scope "defaults" alone: what `up` was started with, and Policy and Effective say nothing.
	Defaults []PolicyDefault `json:"defaults,omitempty"`
	Change   *PolicyChange   `json:"change,omitempty"`
}

// PolicyTest is what a policy would do to sessions now.
type PolicyTest struct {
	Scope    PolicyScope     `json:"scope"`
	Sessions []PolicyVerdict `json:"sessions"` // those for which something would be otherwise come first
	Tested   int             `json:"tested"`
	Omitted  int             `json:"omitted,omitempty"` // that were tested and aren't in the list, since there are too many
	Changed  int             `json:"changed"`           // for which something would be otherwise
	Suspends int             `json:"suspends"`          // that would be suspended at once, and aren't now
	Notes    []string        `json:"notes,omitempty"`   // what makes less of a difference than it seems
}

// PolicyVerdict is what would be otherwise for one session.
type PolicyVerdict struct {
	Name    string    `json:"name"`
	State   State     `json:"state"`
	Changed bool      `json:"changed"`
	Now     string    `json:"now"`         // what is decided, and why
	At      time.Time `json:"at,omitzero"` // when something happens if nothing is heard; unknown if zero
	Would   string    `json:"would"`       // and what would be
	Then    time.Time `json:"then,omitzero"`
}

// PolicySimulation is what would have happened under another policy, beside what
// happens by the same reckoning under the one that holds.
type PolicySimulation struct {
	Scope PolicyScope `json:"scope"`
	From  time.Time   `json:"from"` // later than asked for if the use history doesn't go back further
	To    time.Time   `json:"to"`
	// Sessions are those that there were; Unknown those of them of which the use history
	// knows nothing, so that they count as in use.
	Sessions int `json:"sessions"`
	Unknown  int `json:"unknown,omitempty"`
	// Holes is for how long no scheduler wrote the use history: all count as in use then.
	Holes Duration `json:"holes,omitempty"`
	Now   Outcome  `json:"now"`
	Would Outcome  `json:"would"`
	Notes []string `json:"notes,omitempty"` // what it couldn't take into account
	// Lives are the sessions for which the policies differ most, if they were asked for; Omitted others aren't in it.
	Lives   []SimulatedLife `json:"lives,omitempty"`
	Omitted int             `json:"omitted,omitempty"`
}

// SimulatedLife is one session under two policies.
type SimulatedLife struct {
	Name  string        `json:"name"`
	From  time.Time     `json:"from"`
	To    time.Time     `json:"to"`
	Now   SimulatedNaps `json:"now"`
	Would SimulatedNaps `json:"would"`
}

// SimulatedNaps is when a session would have been suspended.
type SimulatedNaps struct {
	SavedGiBh float64        `json:"saved_gib_hours"`
	Wrong     int            `json:"wrong"`
	Naps      []SimulatedNap `json:"naps"`
	Omitted   int            `json:"omitted,omitempty"` // earlier ones, if there are too many
}

// SimulatedNap is one time in which a session would have been suspended.
type SimulatedNap struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Woken bool      `json:"woken,omitempty"` // it ended with a resume
	Wrong bool      `json:"wrong,omitempty"` // and that within two minutes
}

// Outcome is what came of a policy.
type Outcome struct {
	Suspends    int     `json:"suspends"`
	Resumes     int     `json:"resumes"`
	Wrong       int     `json:"wrong"`        // suspends that were resumed within two minutes
	AsleepHours float64 `json:"asleep_hours"` // of all sessions together
	SavedGiBh   float64 `json:"saved_gib_hours"`
	Waits       float64 `json:"waits_seconds"` // for which clients waited for a resume, at what one takes on average
}

// UseHistoryEvery is how often the use history has an entry at least while it is kept.
const UseHistoryEvery = 5 * time.Minute

// UseHistory is what was heard of many sessions in a short time, in little room: the
// silences that ended, and the uses. The activity itself is not kept.
type UseHistory struct {
	Writer   string    `json:"writer"` // the run of the scheduler that wrote it
	Since    time.Time `json:"since"`  // what it could hear since, without a gap
	At       time.Time `json:"at"`
	Silences []Silence `json:"silences,omitempty"`
	// Uses are those that ended, and parts of those that go on for longer than UsePart.
	// Kinds says that they are written down at all: earlier writers didn't.
	Uses  []Use `json:"uses,omitempty"`
	Kinds bool  `json:"kinds,omitempty"`
	// Lost is how many uses were not written down since the page before: there were too
	// many at once.
	Lost int `json:"lost,omitempty"`
}

// UsePart is the longest use that isn't written down yet.
const UsePart = UseHistoryEvery

// Use is a time in which a session was used in one way again and again, or a lease lived,
// under any policy.
type Use struct {
	UID  UID    `json:"u"`
	What string `json:"w"`           // the kind, with the key of a lease
	From int64  `json:"f"`           // milliseconds since 1970
	To   int64  `json:"t,omitempty"` // the last of it, if it isn't From; of a lease its end
	Last int64  `json:"l,omitempty"` // of a lease that wasn't released: when it was renewed last
}

// Silence is a time in which nothing that counted was heard of a session, and no lease
// lived.
type Silence struct {
	Name string `json:"n"`
	UID  UID    `json:"u"`
	From int64  `json:"f"` // milliseconds since 1970
	To   int64  `json:"t"`
	Used int64  `json:"l,omitempty"` // the last activity before it, if a lease ended later
	What string `json:"w"`           // that ended it: the kind, with the key of a lease
}
