package schemas

import "time"

// The states of a host's lease.
const (
	LeaseHeld    = "held"
	LeaseExpired = "expired" // an observer said so: the holder has to take a new one
)

// OnHostLoss says what happens to a session whose host is lost.
type OnHostLoss string

// The answers to the loss of a host; none is LossWait.
const (
	LossWait   OnHostLoss = "wait"   // it stays that host's
	LossResume OnHostLoss = "resume" // another host resumes its last snapshot
)

// HostLease says that a host is there. The holder renews it, an observer that
// saw it stand unchanged for longer than its term ends it; both by compare-and-swap.
type HostLease struct {
	ID          string    `json:"id"` // fresh for every attempt to write; finds one whose answer was lost
	Host        HostID    `json:"host"`
	Incarnation uint64    `json:"incarnation"` // grows with every new lease that the host takes
	TermMS      int64     `json:"term_ms"`     // milliseconds that it holds after a renewal
	Renewals    uint64    `json:"renewals"`    // of this incarnation
	State       string    `json:"state"`       // held or expired
	By          string    `json:"by"`          // who wrote this
	At          time.Time `json:"at"`          // by the writer's clock; for the eye alone
}

// Term gives how long the lease holds after a renewal.
func (l HostLease) Term() time.Duration { return time.Duration(l.TermMS) * time.Millisecond }
