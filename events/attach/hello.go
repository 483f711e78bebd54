package attach

// Hello is what a client says when it dials a session through its host: which session, and
// what the connection counts as. A Request follows.
type Hello struct {
	Name     string `json:"name"`
	Presence bool   `json:"presence"`          // the connection counts as someone being there
	Input    bool   `json:"input"`             // what the client sends counts as input
	Forward  bool   `json:"forward,omitempty"` // it forwards a connection of someone else
}
