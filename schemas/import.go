package schemas

import (
	"slices"
	"time"
)

// ImportRequest, of run, has a recording that a host has taken in be a session that has ended.
type ImportRequest struct {
	UID  UID    `json:"uid"`  // as the host says
	From string `json:"from"` // what the recording was called, for a person
}

// Imported is a recording that a host has taken in, and that belongs to no session yet.
type Imported struct {
	Name     string     `json:"name"` // of the session that is to be made of it; none of what isn't known
	UID      UID        `json:"uid"`
	Driver   DriverName `json:"driver"`
	Title    string     `json:"title,omitempty"`
	Began    time.Time  `json:"began"`
	Ended    time.Time  `json:"ended"`
	Exit     *int       `json:"exit,omitempty"` // the status, if the recording has it
	Output   int64      `json:"output"`         // bytes
	Commands int64      `json:"commands"`
}

// TakesImports reports whether a host is there that takes in recordings as those of a driver.
func (v HostView) TakesImports(as DriverName) bool {
	return v.Alive && v.Understands(FeatureImport) && slices.ContainsFunc(v.Fingerprints, func(f Fingerprint) bool { return f.Driver == as })
}
