package schemas

import "time"

// Recovery says that all hosts make the records of sessions again, after NATS was
// restored from a backup or lost, or that they did.
type Recovery struct {
	ID    string    `json:"id"`
	Over  bool      `json:"over"`
	Since time.Time `json:"since"`
	By    HostID    `json:"by"` // the host that began it
}
