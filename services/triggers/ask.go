package triggers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Ask is one trigger that is to make a checkpoint.
type Ask struct {
	Name    schemas.Name
	Trigger schemas.Trigger
	Action  string // that an agent is about to take, or took
	RunID   string
	Text    string // what the agent said
	By      string // who says to be the agent
	Seq     uint64 // in the stream of activity
	Skipped int    // older ones that it stands for
}

// Description is what the snapshot is described with.
func (a Ask) Description() string {
	if a.Action != "" && a.Text != "" {
		return a.Action + ": " + a.Text
	}
	return cmp.Or(a.Action, a.Text)
}

// Reason is what the log says of the checkpoint.
func (a Ask) Reason() string {
	text := "an agent says " + string(a.Trigger)
	if a.Action != "" {
		text += " " + a.Action
	}
	if a.RunID != "" {
		text += ", run " + a.RunID
	}
	switch {
	case a.Skipped == 1:
		text += " (one before it was skipped: there was no time for it)"
	case a.Skipped > 1:
		text += fmt.Sprintf(" (%d before it were skipped: there was no time for them)", a.Skipped)
	}
	return text
}

// Actor is who the log says asked.
func (a Ask) Actor() string { return "agent:" + cmp.Or(a.By, "unnamed") }

// What became of a trigger.
const (
	Done    = "done"
	Failed  = "failed"  // no checkpoint was made; the session runs on
	Skipped = "skipped" // a newer one came before there was time for it
	Dropped = "dropped" // the session doesn't run: there is nothing to capture
	Off     = "off"     // the policy doesn't want it
	Taken   = "taken"   // it was acted on before
)

// Outcome is what became of one, and what it cost.
type Outcome struct {
	Word   string
	Why    string        // for a person
	Frozen time.Duration // that the session stood still
}

// Checkpointer makes a checkpoint for a trigger and waits for it. It waits, within ctx,
// for what is being done to the session otherwise. An error is a failure, too.
type Checkpointer interface {
	Checkpoint(ctx context.Context, a Ask) (Outcome, error)
	// Seen gives a session's record as it was read last; ok is false if there is none.
	Seen(n schemas.Name) (r schemas.SessionRecord, ok bool)
}
