package schemas

import (
	"slices"
	"time"
)

// Command wakes the worker of a host: a hint to look at the session's record,
// whose op says what to do. Losing one costs time (a sweep finds the record),
// doing one twice costs nothing.
type Command struct {
	Op    string    `json:"op"`
	Epoch uint64    `json:"epoch"`
	At    time.Time `json:"at"`
}

// Event is something that happened without changing a session's state.
type Event struct {
	Type    string    `json:"type"` // a token: "warning", "deferred", "image_deleted", …
	Tenant  Tenant    `json:"tenant"`
	Session SessionID `json:"session"`
	UID     UID       `json:"uid,omitempty"`
	Op      string    `json:"op,omitempty"`
	Text    string    `json:"text"`
	Actor   string    `json:"actor"`
	Note    string    `json:"note,omitempty"` // what the actor says of itself
	At      time.Time `json:"at"`
	Until   time.Time `json:"until,omitzero"`    // of "warning" and "question": when the session is suspended
	ID      string    `json:"id,omitempty"`      // of what may be said twice: the same then
	Bytes   int64     `json:"bytes,omitempty"`   // of "stored": what the session's images take
	Usage   *Usage    `json:"usage,omitempty"`   // of "usage"
	Version uint64    `json:"version,omitempty"` // of "joined": of the record that the transition made which was asked for by more than one; without it that is the one that began Op
}

// Host is what a worker says of itself.
type Host struct {
	Host         HostID        `json:"host"`
	PID          int           `json:"pid"`
	Started      time.Time     `json:"started"`
	Seen         time.Time     `json:"seen"`
	Fingerprints []Fingerprint `json:"fingerprints"` // one per driver
	Sessions     int           `json:"sessions"`
	SigningKey   string        `json:"signing_key"`     // base64 of the Ed25519 public key
	Slots        int           `json:"slots,omitempty"` // sessions that it has room for; no limit if 0
	Load         *HostLoad     `json:"load,omitempty"`
	// Lacks says by name of the drivers that it has no fingerprint of, but could, why.
	Lacks map[DriverName]string `json:"lacks,omitempty"`
	// Labels are what the operator calls it by: --label of worker and up.
	Labels  map[string]string `json:"labels,omitempty"`
	Version string            `json:"version,omitempty"` // of Diapause there
	// Knows names what of records and ops not every version knows: a host of which it isn't
	// known is given none of it, since it would drop it.
	Knows []Feature `json:"knows,omitempty"`
}

// Feature is something in records and ops that not every version knows.
type Feature string

// The features.
const (
	FeatureMove      Feature = "move"      // Op.Move
	FeaturePlacement Feature = "placement" // SessionRecord.Placement and Op.Unplaced
	FeatureForgets   Feature = "forgets"   // a removed session isn't lost when its revisions have left the log
	FeatureRedeploy  Feature = "redeploy"  // TRedeployed: a start may take over a container that runs already

	FeatureRecording Feature = "recording" // Spec.Record
	FeatureTemplates Feature = "templates" // the state Template, and OpRewrite
	FeatureImport    Feature = "import"    // TImported: it takes in recordings
	FeatureDropped   Feature = "dropped"   // Archived.Dropped: there is nothing to go on from

	FeatureNetwork Feature = "private_network" // Spec.Network private, AllowOut and Publish
	FeatureDisk    Feature = "disk_limit"      // Spec.Disk
	FeatureRights  Feature = "kernel_rights"   // Spec.CapAdd, CapDrop, Seccomp and NoNewPrivs of process trees
	FeatureRoot    Feature = "image_root"      // Spec.Root of a container image
)

// unnamed are features that hosts knew before they announced them: those that know FeatureMove do.
var unnamed = []Feature{FeatureNetwork, FeatureDisk, FeatureRights, FeatureRoot}

// Features lists what this version knows.
func Features() []Feature {
	return append([]Feature{FeatureMove, FeaturePlacement, FeatureForgets, FeatureRedeploy, FeatureRecording, FeatureTemplates, FeatureImport, FeatureDropped}, unnamed...)
}

// Understands reports whether a host's version knows a feature.
func (h Host) Understands(f Feature) bool {
	return slices.Contains(h.Knows, f) || slices.Contains(unnamed, f) && slices.Contains(h.Knows, FeatureMove)
}

// HostLoad is how full a host is.
type HostLoad struct {
	MemoryBytes    int64   `json:"memory_bytes"`    // that it has
	AvailableBytes int64   `json:"available_bytes"` // of them, without putting anything aside
	Pressure       float64 `json:"pressure"`        // the part of the last 10 s in which some task waited for memory, 0 to 1
	// Of the file system that the host's data directory is in; 0 where that isn't known.
	DiskBytes     int64 `json:"disk_bytes,omitempty"`
	DiskFreeBytes int64 `json:"disk_free_bytes,omitempty"`
}

// Progress is one step of an operation, as it happens.
type Progress struct {
	Op    string `json:"op"`
	Kind  string `json:"kind"`
	Stage string `json:"stage"`
	MS    int64  `json:"ms"` // since the operation began
	Bytes int64  `json:"bytes,omitempty"`
	Of    int64  `json:"of,omitempty"` // so many bytes, about, if that is known
	Done  bool   `json:"done,omitempty"`
}
