package schemas

import "time"

// Command wakes the worker of a host: a hint to look at the session's record,
// whose op says what to do. Losing one costs time (a sweep finds the record),
// doing one twice costs nothing.
type Command struct {
	Op    string    `json:"op"`
	Epoch uint64    `json:"epoch"`
	At    time.Time `json:"at"`
}

// Event is something that happened without changing a session's state.
type Event struct {
	Type    string    `json:"type"` // a token: "warning", "deferred", "image_deleted", …
	Tenant  Tenant    `json:"tenant"`
	Session SessionID `json:"session"`
	UID     UID       `json:"uid,omitempty"`
	Op      string    `json:"op,omitempty"`
	Text    string    `json:"text"`
	Actor   string    `json:"actor"`
	At      time.Time `json:"at"`
}

// Host is what a worker says of itself.
type Host struct {
	Host         HostID        `json:"host"`
	PID          int           `json:"pid"`
	Started      time.Time     `json:"started"`
	Seen         time.Time     `json:"seen"`
	Fingerprints []Fingerprint `json:"fingerprints"` // one per driver
	Sessions     int           `json:"sessions"`
	SigningKey   string        `json:"signing_key"` // base64 of the Ed25519 public key
}

// Progress is one step of an operation, as it happens.
type Progress struct {
	Op    string `json:"op"`
	Kind  string `json:"kind"`
	Stage string `json:"stage"`
	MS    int64  `json:"ms"` // since the operation began
	Bytes int64  `json:"bytes,omitempty"`
	Done  bool   `json:"done,omitempty"`
}
