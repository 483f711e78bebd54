package schemas

import "time"

// Amount is how much was used in some time.
type Amount struct {
	RunningSeconds    float64 `json:"running_seconds"`     // running or being suspended: it takes memory
	SuspendedSeconds  float64 `json:"suspended_seconds"`   // it takes room in the store alone
	OtherSeconds      float64 `json:"other_seconds"`       // being started or resumed, ended by itself, or failed
	StoredByteSeconds float64 `json:"stored_byte_seconds"` // bytes of its images in the store, times the seconds that they were there
	UsedByteSeconds   float64 `json:"used_byte_seconds"`   // bytes that were captured of it last, times the seconds that it ran
	SavedByteSeconds  float64 `json:"saved_byte_seconds"`  // the same, times the seconds that it was suspended
	CapturedBytes     int64   `json:"captured_bytes"`      // by suspends and checkpoints
	WrittenBytes      int64   `json:"written_bytes"`       // of these to the store: new, compressed and encrypted
	Suspends          int64   `json:"suspends"`
	Resumes           int64   `json:"resumes"` // those that took a suspend back in time included
	Wakes             int64   `json:"wakes"`   // resumes that activity began; the others were asked for
	Checkpoints       int64   `json:"checkpoints"`
}

// Usage is what one session used from a time to another.
type Usage struct {
	Name        string    `json:"name"` // tenant/id, or id for the default tenant
	Tenant      Tenant    `json:"tenant"`
	UID         UID       `json:"uid"`
	From        time.Time `json:"from"` // the beginning of the session, if that is later than was asked for
	To          time.Time `json:"to"`   // exclusive
	State       State     `json:"state"`
	StoredBytes int64     `json:"stored_bytes"` // at its end
	Amount
}

// TenantUsage is what all sessions of a tenant used.
type TenantUsage struct {
	Tenant      Tenant `json:"tenant"`
	Sessions    int    `json:"sessions"` // of which there was any in that time
	StoredBytes int64  `json:"stored_bytes"`
	Amount
	// Quota is how much it may have, and Held what it has, if there is one.
	Quota *Quota `json:"quota,omitempty"`
	Held  *Held  `json:"held,omitempty"`
}

// UsageRequest says whose usage is asked for, and of which time.
type UsageRequest struct {
	Since Duration  `json:"since,omitempty"` // until now; everything if neither this nor From is given
	From  time.Time `json:"from,omitzero"`
	To    time.Time `json:"to,omitzero"` // now if zero
	By    UsageBy   `json:"by,omitempty"`
}

// UsageBy says what the sums are to be parted by.
type UsageBy string

// ByDay parts them by days in UTC, from the midnight before the time that was asked for; of the
// last 30 days if none was.
const ByDay UsageBy = "day"

// DayUsage is what all sessions of a tenant used in a day.
type DayUsage struct {
	Tenant      Tenant    `json:"tenant"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`           // exclusive: the next midnight in UTC, or the end of what was asked for
	StoredBytes int64     `json:"stored_bytes"` // at its end
	Amount
}

// UsageReport is the answer.
type UsageReport struct {
	From     time.Time     `json:"from,omitzero"` // zero: the beginning of the log
	To       time.Time     `json:"to"`
	Tenants  []TenantUsage `json:"tenants"`
	Sessions []Usage       `json:"sessions"`
	Days     []DayUsage    `json:"days,omitempty"`    // in which anything was used, if sums by day were asked for
	Gaps     []string      `json:"gaps,omitempty"`    // parts of the log that can't be read: what was used then isn't counted
	Omitted  int           `json:"omitted,omitempty"` // sessions that are in the sums and not in the list, since there are too many
}
