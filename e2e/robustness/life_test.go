package robustness_test

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The operations of the model. The verbs are the API's; count is what the
// session's own program does; clean is a resume that starts again.
const (
	opRun        = "run"
	opSuspend    = "suspend"
	opEnsure     = "ensure"
	opResume     = "resume"
	opClean      = "clean"
	opCheckpoint = "checkpoint"
	opRollback   = "rollback"
	opKill       = "kill"
	opRemove     = "rm"
	opShow       = "show"
	opCount      = "count"
	opTouch      = "touch"
)

// What became of an operation.
const (
	ok      = "ok"
	gone    = "no_session"
	exists  = "exists"  // a run, refused because the name is taken
	refused = "refused" // by the state, without effect
	unknown = "unknown" // no answer, or one that says that it may still happen
)

// input is what an operation was asked.
type input struct {
	Session  string `json:"session"`
	Verb     string `json:"verb"`
	Snapshot string `json:"snapshot,omitempty"` // of rollback
	Strict   bool   `json:"strict,omitempty"`   // reads see all that was acknowledged: one server
}

// output is what it was answered.
type output struct {
	Outcome  string `json:"outcome"`
	UID      string `json:"uid,omitempty"`
	Snapshot string `json:"snapshot,omitempty"` // the head, where the answer is sure to say the last
	State    string `json:"state,omitempty"`    // of show
	Count    int    `json:"count,omitempty"`
	Reason   string `json:"reason,omitempty"` // of an error
	Text     string `json:"text,omitempty"`   // for the reader
}

// life is the model's state: one name's session as its users see it.
type life struct {
	state string // "", alive, over
	uid   string // anyone, until it is seen, if the answer to run was lost
	count int
	heads string // "|id=count|…": what its known snapshots have counted to
	past  string // "|uid|…": earlier sessions of the name
}

const (
	alive  = "alive"
	over   = "over"
	anyone = "?"
)

// sessions is the model. A suspend is no event in it: that is the promise.
var sessions = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		var names []string
		for _, o := range history {
			name := o.Input.(input).Session
			if parts[name] == nil {
				names = append(names, name)
			}
			parts[name] = append(parts[name], o)
		}
		var out [][]porcupine.Operation
		for _, n := range names {
			out = append(out, parts[n])
		}
		return out
	},
	Init: func() interface{} { return life{} },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		return step(state.(life), in.(input), out.(output))
	},
	DescribeOperation: func(in, out interface{}) string {
		i, o := in.(input), out.(output)
		return strings.TrimSpace(fmt.Sprintf("%s %s → %s %s %s %d", i.Verb, i.Snapshot, o.Outcome, o.State, o.Snapshot, o.Count))
	},
	DescribeState: func(state interface{}) string { return fmt.Sprintf("%+v", state) },
}

// step says whether an operation may have ended so in that state, and what it
// made of it.
func step(s life, in input, out output) (bool, life) {
	switch out.Outcome {
	case gone:
		return !in.Strict || s.state == "", s
	case exists:
		return !in.Strict || s.state != "", s
	case refused:
		return true, s
	case unknown:
		return true, effect(s, in, out)
	}
	if in.Verb == opCount {
		return counted(s, out)
	}
	if in.Verb == opShow {
		return shown(s, in, out)
	}
	if !possible(s, in, out) {
		return false, s
	}
	return true, effect(s, in, out)
}

// possible reports whether a verb can have worked.
func possible(s life, in input, out output) bool {
	if in.Verb == opRun {
		return s.state == ""
	}
	if s.state == "" || !s.is(out.UID) && in.Verb != opRemove {
		return false
	}
	switch in.Verb {
	case opSuspend, opEnsure, opResume, opCheckpoint:
		return s.state == alive
	case opRollback: // of one that has ended, too
		_, known := s.head(in.Snapshot)
		return known
	}
	return true // two kills may be carried out as one
}

// effect is what a verb makes of the session, if it does anything.
func effect(s life, in input, out output) life {
	if in.Verb == opRun {
		if s.state != "" {
			return s
		}
		uid := out.UID
		if uid == "" {
			uid = anyone
		}
		return life{state: alive, uid: uid, past: s.past}
	}
	if s.state == "" {
		return s
	}
	if out.UID != "" && in.Verb != opRemove {
		s.uid = out.UID
	}
	switch in.Verb {
	case opSuspend, opCheckpoint:
		if out.Snapshot != "" {
			s.heads += fmt.Sprintf("|%s=%d|", out.Snapshot, s.count)
		}
	case opRollback:
		if n, known := s.head(in.Snapshot); known {
			s.state, s.count = alive, n
		}
	case opClean:
		s.state, s.count = alive, 0
	case opKill:
		s.state = over
	case opRemove:
		return life{past: s.past + "|" + s.uid + "|"}
	}
	return s
}

// counted checks the next number of a session. One that is removed may go on
// until the remove is answered, which is checked by the clock beside the model.
func counted(s life, out output) (bool, life) {
	if s.state == alive && s.is(out.UID) && out.Count == s.count+1 {
		s.uid, s.count = out.UID, out.Count
		return true, s
	}
	return s.uid != out.UID && (strings.Contains(s.past, "|"+out.UID+"|") || strings.Contains(s.past, "|"+anyone+"|")), s
}

func shown(s life, in input, out output) (bool, life) {
	if !in.Strict {
		return true, s
	}
	if s.state == "" || !s.is(out.UID) {
		return false, s
	}
	s.uid = out.UID
	switch out.State {
	case "exited":
		return s.state == over, s
	case "running", "suspending", "suspended":
		return s.state == alive, s
	}
	return true, s
}

// is reports whether the session can be the one with that uid. One that was seen
// before is never it again.
func (s life) is(uid string) bool {
	return s.uid == uid || s.uid == anyone && !strings.Contains(s.past, "|"+uid+"|")
}

func (s life) head(id string) (count int, known bool) {
	_, rest, known := strings.Cut(s.heads, "|"+id+"=")
	if known {
		_, _ = fmt.Sscanf(rest, "%d", &count)
	}
	return count, known
}
