package schemas

import "time"

// Archived says that a session is in the archive: it is listed only on demand, counts against nothing, and nothing but a request
// to resume it takes it out. Its recording and its snapshots are kept.
type Archived struct {
	At  time.Time   `json:"at"`
	For ArchivedFor `json:"for"` // why
	// Dropped is when its memory and files were dropped, as its policy says: nothing resumes it since. Its recording is kept.
	Dropped time.Time `json:"memory_dropped,omitzero"`
}

// ArchivedFor is why a session was archived.
type ArchivedFor string

// The reasons.
const (
	ArchivedByHand  ArchivedFor = "manual" // it was asked for
	ArchivedForAge  ArchivedFor = "age"    // its policy says after how long
	ArchivedForRoom ArchivedFor = "total"  // its tenant had too many that weren't
	ArchivedImport  ArchivedFor = "import" // it is a recording that was made elsewhere
)

// StatusArchived is the status of a session in the archive, where lists show one.
const StatusArchived = "archived"

// ListArchived says what a list has of the archive.
type ListArchived string

// What a list has of the archive.
const (
	ArchivedNone ListArchived = "none" // nothing
	ArchivedOnly ListArchived = "only" // nothing else
)

// Has reports whether such a list has a session. The zero ListArchived has all.
func (l ListArchived) Has(archived bool) bool {
	return l == "" || archived == (l == ArchivedOnly)
}

// Known reports whether it is one of the above, or empty.
func (l ListArchived) Known() bool { return l == "" || l == ArchivedNone || l == ArchivedOnly }
