package schemas

// DriverName names a driver: what a session is run, captured and restored by.
type DriverName string

// Fingerprint says what a host can run, and what a snapshot needs of the host
// that restores it.
type Fingerprint struct {
	Arch   string     `json:"arch"`             // GOARCH of the host
	Kernel string     `json:"kernel"`           // uname -r
	Driver DriverName `json:"driver"`           // that runs it there
	Engine string     `json:"engine,omitempty"` // the driver's engine and version: "criu 4.2.1"
	// CPU holds the CPU features that programs may have found at their start,
	// sorted; a host that lacks one of them can't take the snapshot.
	CPU []string `json:"cpu,omitempty"`
	// Base names the root below the session: "host" or the --root directory.
	Base string `json:"base,omitempty"`
}
