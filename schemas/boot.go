package schemas

// Boot says how a session came to run: in its record, and in the generation file that
// its own programs read.
type Boot string

// The ways in which a session comes to run.
const (
	BootClean    Boot = "clean"    // its command was started
	BootResume   Boot = "resume"   // from its last snapshot, with its memory
	BootFork     Boot = "fork"     // from another session's snapshot
	BootRollback Boot = "rollback" // from an earlier snapshot of its own
	// BootRestart brings the files back and starts the command again: of a driver that
	// keeps no memory.
	BootRestart Boot = "restart"
	// BootTakeover goes on from the last snapshot because the host was lost.
	BootTakeover Boot = "takeover"
	// BootTrial restores in quarantine: without a network except a loopback of its own,
	// for a begin that always fails, so that no instruction is executed. No record has it.
	BootTrial Boot = "trial"
)

// MadeBy says who made a session.
type MadeBy string

// Those who make sessions.
const (
	MadeByPerson MadeBy = "person"
	MadeByAgent  MadeBy = "agent"
)
