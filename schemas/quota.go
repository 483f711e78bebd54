package schemas

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Quota is how much a tenant may have; 0 is no limit, and so is none.
type Quota struct {
	Sessions *int   `json:"sessions,omitempty"` // that aren't removed or archived
	Running  *int   `json:"running,omitempty"`  // of these, that run or are about to
	Stored   *Bytes `json:"stored,omitempty"`   // by their images, before another session is started
	// Total is how many sessions may be there that aren't archived: the terminals that have been suspended, or have ended,
	// for the longest are archived to make room. It refuses nothing.
	Total *int `json:"total,omitempty"`
}

// Held is what a tenant has.
type Held struct {
	Sessions int   `json:"sessions"`
	Running  int   `json:"running"`
	Stored   Bytes `json:"stored"`
}

// CountSessions writes how many sessions there are, "1 session" or "2 sessions".
func CountSessions(n int) string {
	if n == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", n)
}

func (q *Quota) validate(scope PolicyScope) error {
	if q == nil {
		return nil
	}
	if scope != ScopeAll && scope.Tenant() == "" {
		return fmt.Errorf("quota of %s: a quota is of a tenant, or of all", scope)
	}
	zero := Bytes(0)
	return together(inRange("quota sessions", q.Sessions, 0, math.MaxInt32), inRange("quota running", q.Running, 0, math.MaxInt32),
		inRange("quota stored", q.Stored, zero, math.MaxInt64), inRange("quota total", q.Total, 0, math.MaxInt32))
}

// Bytes is a size that JSON writes as a number of bytes and reads as that or as "10G", in
// steps of 1024.
type Bytes int64

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	var n int64
	if json.Unmarshal(data, &n) == nil {
		*b = Bytes(n)
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("size %s: want \"10G\" or a number of bytes", data)
	}
	parsed, err := ParseBytes(s)
	if err != nil {
		return fmt.Errorf("size %w", err)
	}
	*b = parsed
	return nil
}

// String writes the size as it is read, in the largest unit that is exact.
func (b Bytes) String() string {
	for _, unit := range []string{"T", "G", "M", "K"} {
		if by := Bytes(1) << byteUnits[unit]; b != 0 && b%by == 0 {
			return fmt.Sprint(int64(b/by), unit)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
