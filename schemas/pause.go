package schemas

import "time"

// PauseReason says why a session is suspended.
type PauseReason string

// The reasons for a pause. New ones may be added.
const (
	PauseInactivity PauseReason = "inactivity" // nothing that counts happened for as long as its grace
	PauseManual     PauseReason = "manual"     // a client asked for it
	PausePressure   PauseReason = "pressure"   // its host had no room for all
	PauseExpired    PauseReason = "expired"    // it ran for as long as its policy allows in one go
	PauseQuota      PauseReason = "quota"      // its tenant's quota had no room for all
	PauseMove       PauseReason = "move"       // it goes to another host
	PauseDrain      PauseReason = "drain"      // its host is taken out of service
	PauseShutdown   PauseReason = "shutdown"   // its host was shut down, and resumes it when it is up again
	PauseHost       PauseReason = "host"       // its host or its record was lost: its last snapshot is left
)

// Pause says why and since when a session is suspended.
type Pause struct {
	Reason PauseReason `json:"reason,omitempty"` // none if it is unknown: an earlier version suspended the session
	At     time.Time   `json:"at"`
}

// pauseOf gives the reason of a suspend by its trigger: all that earlier versions recorded.
func pauseOf(trigger string) PauseReason {
	switch trigger {
	case "idle":
		return PauseInactivity
	case "manual":
		return PauseManual
	case "pressure":
		return PausePressure
	case "expired":
		return PauseExpired
	}
	return ""
}

// Paused says why and since when the session is suspended; nil if it isn't. If an earlier
// version suspended it, there is no reason once its processes are removed: until then its
// op tells it.
func (r SessionRecord) Paused() *Pause {
	switch {
	case r.State != Suspended:
		return nil
	case r.Pause != nil:
		p := *r.Pause
		return &p
	}
	p := &Pause{At: r.Since}
	if r.Op != nil {
		p.Reason = pauseOf(r.Op.Trigger)
	}
	return p
}
