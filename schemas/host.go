package schemas

import "time"

// HostOrder is what operators ordered about a host. A host's own record is written by that host
// alone, so this is a record of its own.
type HostOrder struct {
	Host     HostID `json:"host"`
	Version  uint64 `json:"version"`
	Cordoned bool   `json:"cordoned,omitempty"` // it takes no sessions; those that run there run on
	// Draining has what runs there suspended or moved; Force also what is in use.
	Draining bool      `json:"draining,omitempty"`
	Force    bool      `json:"force,omitempty"`
	Since    time.Time `json:"since"` // when it was ordered
	By       string    `json:"by"`    // who ordered it
	ID       string    `json:"id"`    // fresh for every revision
}

// Says reports whether the order orders anything.
func (o HostOrder) Says() bool { return o.Cordoned || o.Draining }

// HostView is a host as clients see it: what `diapause host ls` and `host show` print with --json.
type HostView struct {
	Host
	Alive     bool       `json:"alive"` // its lease runs
	GoneSince *time.Time `json:"gone_since,omitempty"`
	Order     *HostOrder `json:"order,omitempty"`    // nil if nothing is ordered about it
	SlotsBy   string     `json:"slots_by,omitempty"` // what says how many slots it has, if that isn't its own --slots: "policy of all", "preset terminals"
	Empty     bool       `json:"empty"`              // nothing runs there, or is on its way there
	Left      []HostLeft `json:"left,omitempty"`     // of host_show: its sessions, but for those that are suspended
	Suspended int        `json:"suspended"`          // sessions that were there last and are suspended
	Running   int        `json:"running"`            // sessions that take a slot there, those on their way there included
}

// HostLeft is a session of a host.
type HostLeft struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Step and Why are of a host that is drained: suspend, move or wait, and the reason.
	Step string `json:"step,omitempty"`
	Why  string `json:"why,omitempty"`
}

// Moved says how a move went.
type Moved struct {
	From     HostID `json:"from"`
	To       HostID `json:"to"`
	FrozenMS int64  `json:"frozen_ms"` // how long the session stood still; 0 if it was suspended before
}
