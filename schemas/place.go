package schemas

import "time"

// Place is a slot on a host that is asked for, for a session that is to be made.
// Who asks gets it when there is room for all who asked before him; the order is the
// stream's.
type Place struct {
	ID      string    `json:"id"`
	Host    HostID    `json:"host"`
	Session string    `json:"session"` // its name
	By      string    `json:"by"`      // who asks
	At      time.Time `json:"at"`      // by the clock of who asks; for the eye alone
	// Over says that it is asked for no more; Revision is that of the record which took it,
	// 0 if none did: until that has been read, the place counts.
	Over     bool   `json:"over,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
}
