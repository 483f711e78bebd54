package ingress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// Verdict is what becomes of a request.
type Verdict string

// The verdicts.
const (
	Pass   Verdict = "pass"   // the session runs: it gets the request
	Wake   Verdict = "wake"   // the session is resumed and gets the request
	Answer Verdict = "answer" // the request is answered in the session's stead
	Ignore Verdict = "ignore" // the connection is closed without an answer
)

// Policy says what becomes of each class of requests for a session that doesn't run: Wake, Answer or Ignore. A
// class that it doesn't name is answered.
type Policy map[Class]Verdict

// DefaultPolicy resumes sessions for people and their programs, not for robots.
func DefaultPolicy() Policy { return PolicyOf(schemas.DefaultWake()) }

// PolicyOf gives what the rules of a session's policy say.
func PolicyOf(rules []schemas.WakeRule) Policy {
	p := Policy{}
	for _, w := range rules {
		class, does := w.Parts()
		p[Class(class)] = Verdict(does)
	}
	return p
}

// ParsePolicy makes a policy of the classes that wake and of those that are ignored.
func ParsePolicy(wake, ignore []string) (Policy, error) {
	p := Policy{}
	for verdict, words := range map[Verdict][]string{Wake: wake, Ignore: ignore} {
		for _, word := range words {
			c := Class(strings.TrimSpace(word))
			if !slices.Contains(Classes(), c) {
				return nil, fmt.Errorf("class %q: want one of %s", word, join(Classes()))
			}
			if _, twice := p[c]; twice && p[c] != verdict {
				return nil, fmt.Errorf("class %s is to be woken for and ignored", c)
			}
			p[c] = verdict
		}
	}
	return p, nil
}

func join(all []Class) string {
	words := make([]string, 0, len(all))
	for _, c := range all {
		words = append(words, string(c))
	}
	return strings.Join(words, ", ")
}

// Decide says what becomes of a request for a session in a state. A state that isn't known is "".
func Decide(c Class, state schemas.State, p Policy) Verdict {
	if state == schemas.Running {
		return Pass
	}
	if v, ok := p[c]; ok {
		return v
	}
	return Answer
}

// Use is what a request that reaches its session means for it.
type Use struct {
	Lease bool // it is in use as long as the request is open
	Fresh bool // the request is activity, with which a grace begins
}

// UseOf says what a request of a class means. What a policy wakes for is use, and nothing else is; but what comes
// back by itself keeps a session that runs, as long as it is connected, unless the policy ignores it.
func UseOf(c Class, p Policy) Use {
	wakes := p[c] == Wake
	return Use{Lease: wakes || c == Reconnect && p[c] != Ignore, Fresh: wakes}
}
