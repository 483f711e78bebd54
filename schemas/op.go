package schemas

import (
	"crypto/rand"
	"time"
)

// OpTimeout is how long an op may take before the sweep looks after it.
const OpTimeout = 10 * time.Minute

// NewOp makes an op with an id of its own, due OpTimeout after now. seq is the last activity
// that the decision to make it knew.
func NewOp(kind string, seq uint64, now time.Time) *Op {
	return &Op{ID: rand.Text(), Kind: kind, Deadline: now.Add(OpTimeout).UTC(), Seq: seq}
}

// Reissue gives a copy of an op for another host: with a new id and deadline, not claimed and
// not tried yet.
func (o Op) Reissue(now time.Time) *Op {
	fresh := NewOp(o.Kind, o.Seq, now)
	o.ID, o.Deadline, o.Claim, o.Attempts = fresh.ID, fresh.Deadline, "", 0
	return &o
}
