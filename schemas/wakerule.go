package schemas

import (
	"fmt"
	"slices"
	"strings"
)

// WakeRule says what becomes of a class of requests for a session that doesn't run: "navigation" resumes it, a
// class with ":answer" is answered in its stead, one with ":ignore" isn't answered at all.
type WakeRule string

// What becomes of a class.
const (
	WakeRuleWake   = "wake"
	WakeRuleAnswer = "answer"
	WakeRuleIgnore = "ignore"
)

// RequestClasses lists the classes of requests, as package ingress tells them apart.
func RequestClasses() []string {
	return []string{"navigation", "fetch", "websocket", "tcp", "probe", "link-preview", "crawler", "reconnect"}
}

// DefaultWake is what resumes sessions where no policy says otherwise: people and their programs, not robots.
func DefaultWake() []WakeRule { return []WakeRule{"navigation", "fetch", "websocket", "tcp"} }

// Parts gives the class and what becomes of it.
func (w WakeRule) Parts() (class, does string) {
	class, does, ok := strings.Cut(string(w), ":")
	if !ok {
		does = WakeRuleWake
	}
	return class, does
}

func validateWake(rules []WakeRule) error {
	var errs []error
	seen := map[string]bool{}
	for _, w := range rules {
		class, does := w.Parts()
		switch {
		case !slices.Contains(RequestClasses(), class):
			errs = append(errs, fmt.Errorf("wake %q: want one of %s", w, strings.Join(RequestClasses(), ", ")))
		case does != WakeRuleWake && does != WakeRuleAnswer && does != WakeRuleIgnore:
			errs = append(errs, fmt.Errorf("wake %q: want CLASS, CLASS:answer or CLASS:ignore", w))
		case seen[class]:
			errs = append(errs, fmt.Errorf("wake: %s is there twice", class))
		}
		seen[class] = true
	}
	return together(errs...)
}
