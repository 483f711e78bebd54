package schemas

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// PolicyDocument is the policy of one scope as it is stored.
type PolicyDocument struct {
	Scope   PolicyScope  `json:"scope"`
	UID     UID          `json:"uid,omitempty"` // of the session: a later one of that name isn't meant
	Version uint64       `json:"version"`       // 1 for the first
	Policy  Policy       `json:"policy"`
	Change  PolicyChange `json:"change"`
	// Defaults is of ScopeDefaults alone, whose Policy says nothing.
	Defaults []PolicyDefault `json:"defaults,omitzero"`
}

// PolicyDefault is what all sessions or those of a class are held to where no policy says otherwise.
type PolicyDefault struct {
	Scope  PolicyScope `json:"scope"` // all or a class
	Policy Policy      `json:"policy"`
	From   string      `json:"from"` // what says so: "preset terminals", "variable SANDBOX_TIMEOUT_SECONDS"
}

// PolicyChange is what made a version of a policy.
type PolicyChange struct {
	ID     string    `json:"id"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Validate says what is wrong with the document, all of it.
func (d PolicyDocument) Validate() error {
	errs := []error{d.Policy.Validate(d.Scope)}
	switch {
	case d.Scope != ScopeDefaults && len(d.Defaults) > 0:
		errs = append(errs, fmt.Errorf("policy of %s: it has defaults", d.Scope))
	case d.Scope == ScopeDefaults && !reflect.ValueOf(d.Policy).IsZero():
		errs = append(errs, errors.New("policy of defaults: it has parts of its own"))
	}
	for _, one := range d.Defaults {
		if one.Scope != ScopeAll && one.Scope.Class() == "" {
			errs = append(errs, fmt.Errorf("default of %q: want all or a class", one.Scope))
		}
		errs = append(errs, one.Policy.Validate(one.Scope))
	}
	return together(errs...)
}
