package attach

import "github.com/diapause/diapause/schemas"

// Hello is what a client says when it dials a session through its host: which session, and
// what the connection counts as. A Request follows.
type Hello struct {
	Name     string      `json:"name"`
	UID      schemas.UID `json:"uid,omitempty"`     // of the session that is meant: another one that has its name now refuses
	Presence bool        `json:"presence"`          // the connection counts as someone being there
	Input    bool        `json:"input"`             // what the client sends counts as input
	Forward  bool        `json:"forward,omitempty"` // it forwards a connection of someone else
	Import   bool        `json:"import,omitempty"`  // it sends a recording of which a session of that name is made
	Direct   bool        `json:"direct,omitempty"`  // with Forward: it takes offers of a direct connection
	Search   bool        `json:"search,omitempty"`  // it searches recordings of the host's sessions, and names none
}

// Offer lets a client make the connection that it asked for with the host itself, once and soon.
type Offer struct {
	Address     string `json:"address"`     // host:port, as the host's operator gave it
	Fingerprint string `json:"fingerprint"` // SHA-256 of the certificate that the host shows there, in hex
	Grant       string `json:"grant"`       // the secret that lets the connection in, in hex
}
