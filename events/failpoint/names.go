package failpoint

import "slices"

// Name is one moment: what has just been done when it is reached, or is about to be.
type Name string

// What a scheduler does about one decision.
const (
	SchedulerDecided   Name = "scheduler.decided"   // before the record is changed
	SchedulerRecorded  Name = "scheduler.recorded"  // before the command
	SchedulerCommanded Name = "scheduler.commanded" // the command is stored
)

// What the API does about one request.
const (
	APIAsked     Name = "api.asked"     // before the record is changed
	APIRecorded  Name = "api.recorded"  // before the command
	APICommanded Name = "api.commanded" // before the answer is waited for
	APIForkHead  Name = "api.fork.head" // what is to be forked has its snapshot, the fork has no record
	APIForkMade  Name = "api.fork.made" // the fork has a record, and its origin isn't looked at again yet
)

// What a worker does about an op: any, then one that writes an image.
const (
	WorkerFound   Name = "worker.found"   // before the claim
	WorkerClaimed Name = "worker.claimed" // before the first step

	CaptureStarts  Name = "worker.capture.starts"  // nothing is frozen
	CaptureTaken   Name = "worker.capture.taken"   // frozen, nothing committed
	CaptureDurable Name = "worker.capture.durable" // committed, and no record names it

	SuspendRecorded Name = "worker.suspend.recorded" // frozen, and its image is the head
	ReapHeard       Name = "worker.reap.heard"       // nothing revives it; before the kill
	ReapKilled      Name = "worker.reap.killed"      // before the record says so
	ReapRecorded    Name = "worker.reap.recorded"
	ReviveRecorded  Name = "worker.revive.recorded" // the record says running, and it is frozen

	CheckpointThawed   Name = "worker.checkpoint.thawed" // before the record names the image
	CheckpointRecorded Name = "worker.checkpoint.recorded"

	AbortThawed   Name = "worker.abort.thawed" // a capture came to nothing; before the record says so
	AbortRecorded Name = "worker.abort.recorded"
)

// The same for an op that starts or restores a session, or ends it.
const (
	StartReady    Name = "worker.start.ready"    // before the record says running
	StartRecorded Name = "worker.start.recorded" // it does, and no instruction was executed
	StartDone     Name = "worker.start.done"

	ResumeCleared  Name = "worker.resume.cleared"  // nothing of the session is on the host
	ResumeOpened   Name = "worker.resume.opened"   // the image is verified
	ResumeRestored Name = "worker.resume.restored" // before the record says running
	ResumeRecorded Name = "worker.resume.recorded" // it does, and no instruction was executed
	ResumeDone     Name = "worker.resume.done"

	ProveStarts Name = "worker.prove.starts" // it runs in the place of what it was; before it is looked at
	FellBack    Name = "worker.prove.back"   // the record goes on from what it was; before that is restored

	KillStopped  Name = "worker.kill.stopped" // before the record says so
	KillRecorded Name = "worker.kill.recorded"

	RemoveStopped  Name = "worker.remove.stopped" // before anything is deleted
	RemoveUnneeded Name = "worker.remove.unneeded"
	RemoveDeleted  Name = "worker.remove.deleted" // before the record says so
	RemoveRecorded Name = "worker.remove.recorded"
)

// What a worker does to take something out of a recording.
const (
	RedactWritten Name = "recording.redact.written" // what replaces it is stored, and doesn't count yet
	RedactCounts  Name = "recording.redact.counts"  // it counts; before the old objects are deleted
)

// What writing an image does when all of it has been taken in. Package image calls
// them by their last word.
const (
	ImagePacks  Name = "image.packs"  // packs are stored
	ImageKey    Name = "image.key"    // and the lineage key is
	ImageHeader Name = "image.header" // and the header is
)

// What the criu driver does in a capture and in a restore, while a shim waits.
const (
	CriuFenced  Name = "criu.capture.fenced" // before the shim is told
	CriuDumped  Name = "criu.capture.dumped" // criu is at its end and waits
	CriuLayers  Name = "criu.capture.layers" // the session's files are in the image
	CriuMemory  Name = "criu.capture.memory" // and its memory is; before criu lets go
	CriuLetGo   Name = "criu.capture.let_go" // frozen, criu is gone
	CriuVacant  Name = "criu.restore.vacant" // before the shim is started
	CriuShim    Name = "criu.restore.shim"   // it waits for the image
	CriuFilled  Name = "criu.restore.filled" // it has the image; before criu begins
	CriuGoing   Name = "criu.restore.going"  // before it is given the word to let the session run
	CriuRuns    Name = "criu.restore.runs"   // the session runs
	CriuLost    Name = "criu.restore.lost"   // or of a start: what may have run is gone, and was noted; before the worker hears so
	CriuStopped Name = "criu.stop.processes" // its processes are gone, its directories aren't
)

// What a session's shim does, in a process of its own: it hears with each order what
// its worker has armed for these, and counts by itself.
const (
	ShimOrdered Name = "shim.order.fenced" // the order's epoch is noted; before it is carried out

	ShimGated     Name = "shim.capture.gated"    // no command gets in any more; before the freeze
	ShimLooked    Name = "shim.capture.looked"   // it is known what can't be captured; before the freeze
	ShimFrozen    Name = "shim.capture.frozen"   // before criu
	ShimDumping   Name = "shim.capture.dumping"  // criu is in the middle of it, and opens one of the large images
	ShimDumped    Name = "shim.capture.dumped"   // criu has all and holds it; before the worker hears so
	ShimRehearses Name = "shim.rehearse.starts"  // the quarantine stands; before criu
	ShimRehearsed Name = "shim.rehearse.stopped" // the copy stands before its first instruction
	ShimCompared  Name = "shim.rehearse.done"    // it was compared; before the worker hears so
	ShimRead      Name = "shim.capture.read"     // the worker has all; before criu lets go
	ShimLetGo     Name = "shim.capture.let_go"   // criu is gone, it is frozen; before the worker hears so

	ShimThaws  Name = "shim.thaw.starts" // what was taken back of its input is put in again; before the thaw
	ShimThawed Name = "shim.thaw.done"   // before the worker hears so

	ShimKills  Name = "shim.stop.starts" // before the kill
	ShimKilled Name = "shim.stop.killed" // before the worker hears so

	ShimFilled   Name = "shim.restore.filled"   // the image is in memory and all is mounted; before criu
	ShimRestored Name = "shim.restore.restored" // nothing has run; before the worker is asked
	ShimBegins   Name = "shim.restore.told"     // the worker said so; before it is written down that it runs
	ShimNoted    Name = "shim.restore.noted"    // before criu goes on
	ShimTraced   Name = "shim.restore.traced"   // each process is at its next instruction, traced; before the freeze
	ShimHeld     Name = "shim.restore.held"     // criu is gone, the tree is frozen and has not run; before the thaw
	ShimRuns     Name = "shim.restore.runs"     // before the worker hears so

	ShimMade    Name = "shim.start.made"  // its command is there, stopped; before the worker is asked
	ShimStarts  Name = "shim.start.told"  // before it is written down that it runs
	ShimWritten Name = "shim.start.noted" // before its first instruction
	ShimStarted Name = "shim.start.runs"  // before the worker hears so

	ShimOver  Name = "shim.lease.over"   // it wasn't renewed; before the freeze
	ShimStill Name = "shim.lease.frozen" // it stands still by itself
)

// In the docker driver.
const (
	DockerAhead    Name = "docker.capture.ahead"   // what could be stored while it ran is; before the pause
	DockerPaused   Name = "docker.capture.paused"  // before anything else is added
	DockerAdded    Name = "docker.capture.added"   // paused, all of it is in the image
	DockerMade     Name = "docker.restore.made"    // the container is there, and empty
	DockerAside    Name = "docker.restore.aside"   // what a volume had is set aside; before anything is put in
	DockerFilled   Name = "docker.restore.filled"  // it has its files; before anything is recorded
	DockerSwapped  Name = "docker.restore.swapped" // it has the place of a held one
	DockerStarts   Name = "docker.start.noted"     // noted to run, not started yet
	DockerReplaces Name = "docker.start.replaces"  // it runs; before what it takes the place of is removed
	DockerRuns     Name = "docker.start.runs"      // it runs
	DockerHolding  Name = "docker.stop.holding"    // a container is to be held: its restart policy is set aside, it isn't killed yet
	DockerRemoved  Name = "docker.stop.removed"    // the container is gone, its volumes aren't
)

// Names lists all moments.
func Names() []Name { return slices.Clone(all) }

var all = []Name{
	SchedulerDecided, SchedulerRecorded, SchedulerCommanded,
	APIAsked, APIRecorded, APICommanded, APIForkHead, APIForkMade,
	WorkerFound, WorkerClaimed, CaptureStarts, CaptureTaken, CaptureDurable,
	SuspendRecorded, ReapHeard, ReapKilled, ReapRecorded, ReviveRecorded,
	CheckpointThawed, CheckpointRecorded, AbortThawed, AbortRecorded,
	StartReady, StartRecorded, StartDone,
	ResumeCleared, ResumeOpened, ResumeRestored, ResumeRecorded, ResumeDone,
	ProveStarts, FellBack, KillStopped, KillRecorded, RemoveStopped, RemoveUnneeded, RemoveDeleted, RemoveRecorded, RedactWritten, RedactCounts,
	ImagePacks, ImageKey, ImageHeader,
	CriuFenced, CriuDumped, CriuLayers, CriuMemory, CriuLetGo,
	CriuVacant, CriuShim, CriuFilled, CriuGoing, CriuRuns, CriuLost, CriuStopped,
	ShimOrdered, ShimGated, ShimLooked, ShimFrozen, ShimDumping, ShimDumped, ShimRehearses, ShimRehearsed, ShimCompared, ShimRead, ShimLetGo, ShimThaws, ShimThawed, ShimKills, ShimKilled,
	ShimFilled, ShimRestored, ShimBegins, ShimNoted, ShimTraced, ShimHeld, ShimRuns, ShimMade, ShimStarts, ShimWritten, ShimStarted, ShimOver, ShimStill,
	DockerAhead, DockerPaused, DockerAdded, DockerMade, DockerAside, DockerFilled, DockerSwapped, DockerStarts, DockerReplaces, DockerRuns, DockerHolding, DockerRemoved,
}
