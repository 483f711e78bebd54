package schemas

import "time"

// StoreRequest is what a client asks of the verbs that look after the object
// store.
type StoreRequest struct {
	ReadData bool   `json:"read_data,omitempty"` // of check: compare packs with their digests
	Subset   string `json:"subset,omitempty"`    // of check: "n/t", the n-th of t parts of the packs
	DryRun   bool   `json:"dry_run,omitempty"`   // of prune: tell what would be done
	Restore  bool   `json:"restore,omitempty"`   // of verify: restore it in quarantine, too
}

// StoreCheck is what was found wrong in the object store.
type StoreCheck struct {
	Lineages  int      `json:"lineages"`
	Snapshots int      `json:"snapshots"`
	Packs     int      `json:"packs"`
	ReadBytes int64    `json:"read_bytes"`   // that were compared with their digests
	Segments  int      `json:"log_segments"` // of the log, that are linked and genuine
	Problems  []string `json:"problems"`
	Notes     []string `json:"notes,omitempty"` // what is as it should be, and worth knowing
	Unknown   []string `json:"unknown"`         // lineages of which no record knows, and log segments that no chain has; never touched
	Foreign   []string `json:"foreign"`         // objects that are none of ours; never touched
}

// StoreStats is what the object store holds, by session.
type StoreStats struct {
	Sessions    []SessionStats `json:"sessions"`
	StoredBytes int64          `json:"stored_bytes"`
	Health      StoreHealth    `json:"health"`
}

// StoreHealth says how the store is for the process that answers.
type StoreHealth struct {
	LastError   string    `json:"last_error,omitempty"` // of a call since the process began; it may have gone well since
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// Of the file system, if the store is a directory.
	TotalBytes int64 `json:"total_bytes,omitempty"`
	FreeBytes  int64 `json:"free_bytes,omitempty"`
}

// SessionStats is what the images of one session take.
type SessionStats struct {
	Name         string `json:"name"` // of the session; empty if no record knows the lineage
	Lineage      string `json:"lineage"`
	Snapshots    int    `json:"snapshots"`
	LogicalBytes int64  `json:"logical_bytes"` // contents of all its snapshots
	StoredBytes  int64  `json:"stored_bytes"`  // all its objects
	UnusedBytes  int64  `json:"unused_bytes"`  // of these, what nothing needs; goes after a wait
}

// StorePrune is what keeping house did, or would do.
type StorePrune struct {
	DryRun       bool             `json:"dry_run"`
	Snapshots    []PrunedSnapshot `json:"snapshots"`      // that were deleted
	Expired      []string         `json:"expired"`        // sessions that were removed
	Archived     []string         `json:"archived"`       // sessions that were put into the archive
	Dropped      []string         `json:"memory_dropped"` // archived sessions whose memory and files were dropped
	Marked       int              `json:"marked"`         // unused objects, to be deleted by a later run
	Deleted      int              `json:"deleted"`        // unused objects
	DeletedBytes int64            `json:"deleted_bytes"`
	Log          *PrunedLog       `json:"log,omitempty"` // none where the log of sessions isn't moved
	Problems     []string         `json:"problems"`
}

// PrunedLog is what was moved from the log of sessions in NATS to segments in the store, and what
// there is.
type PrunedLog struct {
	Moved        int       `json:"moved"`        // revisions
	Segments     int       `json:"segments"`     // that were written
	Bytes        int64     `json:"bytes"`        // of these
	Forgotten    int       `json:"forgotten"`    // removed sessions of which NATS has nothing any more
	AllSegments  uint64    `json:"all_segments"` // of the chain
	AllBytes     int64     `json:"all_bytes"`    // of all segments
	At           time.Time `json:"at,omitzero"`  // when the last segment was written, by the clock of the log
	Revisions    uint64    `json:"revisions"`    // that NATS has
	OldestInNATS time.Time `json:"oldest_in_nats,omitzero"`
}

// PrunedSnapshot is a snapshot that the retention policy didn't keep.
type PrunedSnapshot struct {
	Name        string    `json:"name"` // of the session
	ID          string    `json:"id"`
	At          time.Time `json:"at"`
	StoredBytes int64     `json:"stored_bytes"` // that it had added to the store
	Reason      string    `json:"reason"`
}

// Verified is a snapshot that was read and compared from end to end.
type Verified struct {
	Name         string  `json:"name"`
	ID           string  `json:"id"`
	Entries      int     `json:"entries"`
	LogicalBytes int64   `json:"logical_bytes"`
	Packs        int     `json:"packs"`
	Restored     bool    `json:"restored"` // in quarantine, and killed before its first instruction
	Seconds      float64 `json:"seconds"`
}
