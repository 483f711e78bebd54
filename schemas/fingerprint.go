package schemas

import "strings"

// DriverName names a driver: what a session is run, captured and restored by.
type DriverName string

// Keeps says what a driver's snapshots have of a session.
type Keeps string

// What is kept.
const (
	KeepsMemory Keeps = "memory" // and files: its processes go on where they were
	KeepsFiles  Keeps = "files"  // files alone: its command is started again
)

// filesAlone is the one driver of versions before Keeps that kept no memory. Hosts, images
// and records of these versions don't say what is kept; this is the one place that knows.
const filesAlone DriverName = "docker"

func keepsMemory(k Keeps, d DriverName) bool {
	if k == "" {
		return d != filesAlone
	}
	return k == KeepsMemory
}

// KeepsMemory reports whether the session's snapshots have its memory.
func (r SessionRecord) KeepsMemory() bool { return keepsMemory(r.Keeps, r.Driver) }

// KeepsMemory reports whether the driver's snapshots have the memory of sessions.
func (f Fingerprint) KeepsMemory() bool { return keepsMemory(f.Keeps, f.Driver) }

// Fingerprint says what a host can run, and what a snapshot needs of the host
// that restores it.
type Fingerprint struct {
	Arch   string     `json:"arch"`             // GOARCH of the host
	Kernel string     `json:"kernel"`           // uname -r
	Driver DriverName `json:"driver"`           // that runs it there
	Engine string     `json:"engine,omitempty"` // the driver's engine and version: "criu 4.2.1"
	Keeps  Keeps      `json:"keeps,omitempty"`  // memory or files; KeepsMemory says what none means
	// CPU holds the CPU features that programs may have found at their start,
	// sorted; a host that lacks one of them can't take the snapshot. Beside them
	// are the features of Diapause and of CRIU that a snapshot needs, each with a
	// prefix of its own: here versions that know none of them look, too, and refuse
	// the snapshot by name.
	CPU []string `json:"cpu,omitempty"`
	// Base names the root below the session: "host" or the --root directory.
	Base string `json:"base,omitempty"`
}

// Needs gives the names in CPU with a prefix, without it; those of the CPU itself for "".
func (f Fingerprint) Needs(prefix string) (names []string) {
	for _, name := range f.CPU {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (prefix != "" || !strings.Contains(name, ":")) {
			names = append(names, rest)
		}
	}
	return names
}

// The prefixes of features that aren't the CPU's, in Fingerprint.CPU.
const (
	DiapauseNeed = "diapause:" // something in the image
	CriuNeed     = "criu:"     // a patch, by its name in workers/criu/patches
)

// ImageLayer is of images that have a session's own files as a file system, not one by one.
const ImageLayer = DiapauseNeed + "layer"
