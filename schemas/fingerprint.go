package schemas

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
	// sorted; a host that lacks one of them can't take the snapshot.
	CPU []string `json:"cpu,omitempty"`
	// Base names the root below the session: "host" or the --root directory.
	Base string `json:"base,omitempty"`
}
