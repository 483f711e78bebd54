package schemas

import "time"

// TypedCommand is one that a shell ran in a session's terminal, or runs.
type TypedCommand struct {
	Number int64     `json:"number"` // in its terminal, from 1
	Text   string    `json:"text"`
	Cut    bool      `json:"cut,omitempty"` // the text was longer
	Dir    string    `json:"dir,omitempty"`
	By     MadeBy    `json:"by,omitempty"` // who typed last before it ran; "" if that isn't known
	Began  time.Time `json:"began"`
	// Ended is zero of one that runs.
	Ended time.Time `json:"ended,omitzero"`
	Exit  *int      `json:"exit,omitempty"` // null if the shell didn't say it
	From  int64     `json:"from"`           // its output, by positions in that of the terminal, in bytes
	To    int64     `json:"to,omitempty"`   // 0 of one that runs
}

// Running reports whether the command ran when that was noted.
func (c TypedCommand) Running() bool { return c.Ended.IsZero() }
