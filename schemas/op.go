package schemas

import (
	"crypto/rand"
	"regexp"
	"time"
)

// OpTimeout is how long an op may take before the sweep looks after it.
const OpTimeout = 10 * time.Minute

// NewOp makes an op with an id of its own, due OpTimeout after now. seq is the last activity
// that the decision to make it knew.
func NewOp(kind string, seq uint64, now time.Time) *Op {
	return &Op{ID: rand.Text(), Kind: kind, Deadline: now.Add(OpTimeout).UTC(), Seq: seq}
}

// Move is what a suspend for a move becomes: where the session goes, and where it goes on if that
// fails. It stays with the op through suspend, reap and resume.
type Move struct {
	From HostID `json:"from"`
	To   HostID `json:"to"`
	// Asleep says that the session was suspended before: if the move fails, any host may resume
	// it that its placement allows.
	Asleep bool `json:"asleep,omitempty"`
}

// MovingTo is the host that a session is on its way to, and takes a slot on; "" if there is none
// but its own.
func (r SessionRecord) MovingTo() HostID {
	if r.Op == nil || r.Op.Move == nil || r.Op.Move.To == r.Host || r.State == Running || r.State == Resuming {
		return ""
	}
	return r.Op.Move.To
}

// Queued reports whether a session was made while no host had room for it: it has no host yet, and
// waits until one is chosen.
func (r SessionRecord) Queued() bool {
	return r.State == Starting && r.Host == "" && r.Op != nil && r.Op.Unplaced
}

// NeverPlaced reports whether something is still to be done about a session that never came to a
// host: it is queued, or was removed while it was. No host does it.
func (r SessionRecord) NeverPlaced() bool { return r.Host == "" && r.Op != nil }

// Placement is what a session asks of its hosts, each time that it comes to one.
type Placement struct {
	Labels map[string]string `json:"labels,omitempty"` // that the host has
	Spread bool              `json:"spread,omitempty"` // of those that can take it, one with the fewest running sessions of its tenant
	Apart  []SessionID       `json:"apart,omitempty"`  // sessions of its tenant with which it shares no host
}

// HeaderTrace is the header of a request that says of which trace it is a part; see Op.Trace.
const HeaderTrace = "traceparent"

var traceparent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// An answer that is larger than NATS carries is in the encoding that the request's HeaderTakes names, and its HeaderEncoding
// says so. Gzip is the one that there is (RFC 1952).
const (
	HeaderTakes    = "Accept-Encoding"
	HeaderEncoding = "Content-Encoding"
	Gzip           = "gzip"
)

// ValidTrace reports whether a value of HeaderTrace is one.
func ValidTrace(text string) bool { return traceparent.MatchString(text) }

// Reissue gives a copy of an op for another host: with a new id and deadline, not claimed and
// not tried yet, and part of no move any more.
func (o Op) Reissue(now time.Time) *Op {
	fresh := NewOp(o.Kind, o.Seq, now)
	o.ID, o.Deadline, o.Claim, o.Attempts = fresh.ID, fresh.Deadline, "", 0
	o.Move, o.Unplaced, o.Only = nil, false, ""
	return &o
}
