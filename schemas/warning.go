package schemas

import "time"

// WarningCode names a kind of warning. New ones may be added, none changes its meaning.
type WarningCode string

// The codes of warnings.
const (
	WarnConnection   WarningCode = "connection_closed"   // a network connection doesn't survive the suspend
	WarnPending      WarningCode = "capture_may_wait"    // a socket holds data that a capture has to wait for
	WarnInFlight     WarningCode = "in_flight"           // what a process has may be in the queue of a socket, or outside the session
	WarnNotKept      WarningCode = "not_kept"            // something that the kernel keeps for a program comes back different
	WarnHook         WarningCode = "hook_failed"         // a hook failed or ran out of time
	WarnPicture      WarningCode = "no_picture"          // there is no picture of the desktop
	WarnSockets      WarningCode = "sockets_left_out"    // socket files, which their programs make again
	WarnBindMount    WarningCode = "bind_mount_left_out" // the contents of a bind mount
	WarnTmpfs        WarningCode = "tmpfs_lost"          // the contents of a tmpfs
	WarnVolume       WarningCode = "volume_left_out"     // the contents of a volume
	WarnVolumeShared WarningCode = "volume_shared"       // a volume that other containers use as well
	WarnInodes       WarningCode = "inode_numbers"       // files have other inode numbers after a resume
	WarnAllFiles     WarningCode = "all_files_captured"  // the whole file system was captured, not what changed
	WarnUser         WarningCode = "user_not_captured"   // this host can't capture sessions of that user
	WarnNetwork      WarningCode = "network_blocked"     // the host's rules drop what the session sends outside
	WarnLayer        WarningCode = "layer_failed"        // the file system of the session's own files has met an error
	WarnHealth       WarningCode = "shown_unhealthy"     // the engine calls a container unhealthy that was paused, until its next health check
	WarnRedeployed   WarningCode = "redeployed"          // a container that others started took the place of what was suspended
	WarnNotIsolated  WarningCode = "not_isolated"        // the session was adopted, and has the host's processes, files and network
	WarnDiffers      WarningCode = "rehearsal_differs"   // what is not as before after a resume, as its rehearsal showed
)

// Warning is something that the user of a session should know although the operation
// worked: what its snapshot lacks, what won't survive.
type Warning struct {
	Code    WarningCode `json:"code"`
	Subject string      `json:"subject,omitempty"` // what it is about: a connection, a mount, a volume
	Text    string      `json:"text"`              // one sentence for a person
	At      time.Time   `json:"at"`
}
