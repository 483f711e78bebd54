// Package limits holds what package confine computes, for those who enforce it: shims, which
// must not grow by what computing it takes. It has no rules of its own.
package limits

import (
	"crypto/sha256"
	"encoding/hex"
)

// Limits are what a session may do.
type Limits struct {
	Capabilities uint64 `json:"capabilities"`           // that its processes may have, by their bits
	Filter       []byte `json:"filter,omitempty"`       // of system calls, as the kernel's sock_filter; none if empty
	NoNewPrivs   bool   `json:"no_new_privs,omitempty"` // programs gain nothing by being setuid
}

// Digest stands for the filter; it is empty if there is none.
func (l Limits) Digest() string {
	if len(l.Filter) == 0 {
		return ""
	}
	sum := sha256.Sum256(l.Filter)
	return hex.EncodeToString(sum[:])
}
