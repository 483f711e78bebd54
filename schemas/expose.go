package schemas

import (
	"cmp"
	"fmt"
	"slices"
)

// Access is who may reach a port of a session through a gateway.
type Access string

// The kinds of access. A port that has none is private.
const (
	AccessPrivate Access = "private" // browsers that are logged in, and bearers of tokens
	AccessToken   Access = "token"   // bearers of tokens alone
	AccessPublic  Access = "public"  // everybody
)

// Accesses lists the kinds of access.
func Accesses() []Access { return []Access{AccessPrivate, AccessToken, AccessPublic} }

// ExposedPort is a port of a session that isn't private.
type ExposedPort struct {
	Port   uint16 `json:"port"`
	Access Access `json:"access"`
}

// MaxExposed is how many ports of one session may not be private.
const MaxExposed = 64

// ExposeRequest says who may reach a port from now on.
type ExposeRequest struct {
	Port   uint16 `json:"port"`
	Access Access `json:"access"`
}

// Validate says what can't be.
func (r ExposeRequest) Validate() error {
	if r.Port == 0 {
		return fmt.Errorf("port 0: want one from 1 to 65535")
	}
	if !slices.Contains(Accesses(), r.Access) {
		return fmt.Errorf("access %q: want one of %s", r.Access, joined(Accesses()))
	}
	return nil
}

// AccessOf gives who may reach a port.
func AccessOf(all []ExposedPort, port uint16) Access {
	for _, e := range all {
		if e.Port == port {
			return e.Access
		}
	}
	return AccessPrivate
}

// Expose gives the ports with one of them changed, in order. It changes none of all.
func Expose(all []ExposedPort, r ExposeRequest) []ExposedPort {
	out := slices.DeleteFunc(slices.Clone(all), func(e ExposedPort) bool { return e.Port == r.Port })
	if r.Access != AccessPrivate {
		out = append(out, ExposedPort(r))
	}
	slices.SortFunc(out, func(a, b ExposedPort) int { return cmp.Compare(a.Port, b.Port) })
	return out
}

// ReachRequest asks whether the caller may reach a port of a session.
type ReachRequest struct {
	Port uint16 `json:"port"`
	// Page says that a browser asks with the cookie of the port's host: that is no token, and no token is that.
	Page bool `json:"page,omitempty"`
}

// Reach is a port that the caller may reach.
type Reach struct {
	Actor  string `json:"actor"`
	Port   uint16 `json:"port"`
	Access Access `json:"access"`
}
