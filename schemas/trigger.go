package schemas

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Trigger is something that an agent does and that may make a checkpoint: the key of
// activity of KindAgent.
type Trigger string

// The triggers.
const (
	TriggerRunStart Trigger = "run_start" // a run of the agent begins
	TriggerRunEnd   Trigger = "run_end"   // it is over, however it went
	TriggerBefore   Trigger = "before"    // the agent is about to act; Activity.Action says how
	TriggerAfter    Trigger = "after"     // it has acted
	TriggerManual   Trigger = "manual"    // it wants a checkpoint now
)

// Known reports whether t is one of the triggers above.
func (t Trigger) Known() bool {
	switch t {
	case TriggerRunStart, TriggerRunEnd, TriggerBefore, TriggerAfter, TriggerManual:
		return true
	}
	return false
}

// What a policy may say besides the names of the triggers.
const (
	OnRunBoundaries = "run_boundaries" // run_start and run_end
	OnEveryAction   = "every_action"   // after any action
	everyPrefix     = "every:"         // at intervals: every:10m
)

// Triggers are the words by which a policy says which triggers make a checkpoint:
// those of the triggers, run_boundaries and every_action. "before:ACTION" and
// "after:ACTION" are for that action alone. "every:10m" makes one whenever the last is that old
// and the session has executed something since. None is for none.
type Triggers []string

// maxAction is what the name of an action may have, in bytes.
const maxAction = 64

// Validate says what is wrong with the words.
func (ts Triggers) Validate() error {
	intervals := 0
	for _, word := range ts {
		if text, ok := strings.CutPrefix(word, everyPrefix); ok {
			d, err := time.ParseDuration(text)
			if err != nil || d < leastEvery || d > mostEvery {
				return fmt.Errorf("checkpoint interval %q: want every:TIME, from %s to %s", word, leastEvery, mostEvery)
			}
			if intervals++; intervals > 1 {
				return fmt.Errorf("checkpoint interval %q: want one at most", word)
			}
			continue
		}
		name, action, one := strings.Cut(word, ":")
		t := Trigger(name)
		switch {
		case one && t != TriggerBefore && t != TriggerAfter:
			return fmt.Errorf("checkpoint trigger %q: only before and after name an action", word)
		case one && (action == "" || len(action) > maxAction):
			return fmt.Errorf("checkpoint trigger %q: want an action of 1 to %d bytes", word, maxAction)
		case !t.Known() && name != OnRunBoundaries && name != OnEveryAction:
			return fmt.Errorf("checkpoint trigger %q: want run_start, run_end, run_boundaries, before[:ACTION], after[:ACTION], every_action, every:TIME, manual", word)
		}
	}
	return nil
}

// The bounds of what every: may say.
const (
	leastEvery = 5 * time.Second
	mostEvery  = 30 * 24 * time.Hour
)

// Every is how old a session's last snapshot may get while it runs; 0 is no limit.
func (ts Triggers) Every() time.Duration {
	for _, word := range ts {
		if text, ok := strings.CutPrefix(word, everyPrefix); ok {
			d, _ := time.ParseDuration(text) // of Validate
			return d
		}
	}
	return 0
}

// Want reports whether the words ask for a checkpoint at a trigger.
func (ts Triggers) Want(t Trigger, action string) bool {
	return slices.ContainsFunc(ts, func(word string) bool {
		switch word {
		case string(t):
			return true
		case OnRunBoundaries:
			return t == TriggerRunStart || t == TriggerRunEnd
		case OnEveryAction:
			return t == TriggerAfter
		}
		return action != "" && word == string(t)+":"+action
	})
}
