package driver

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/diapause/diapause/events/lease/term"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// Driver runs, captures and restores sessions on this host.
//
// A session on a host is known by its uid. Every mutating call carries the epoch of the
// caller. A driver stores the highest epoch that it saw for a uid durably and answers
// ErrStale to a lower one, so that a former owner can't touch what its successor owns.
//
// Calls for one uid are serialised by the caller; calls for different uids run
// concurrently. A cancelled context ends the wait and never leaves a call half undone:
// after any error the session is what it was before the call, or the error is of kind
// Broken and says what it is now.
type Driver interface {
	// Fingerprint returns what this host can run. An error says why the driver can't
	// work here.
	Fingerprint(ctx context.Context) (schemas.Fingerprint, error)

	// Start makes the session and returns when its command has been executed.
	// A command that doesn't exist or can't be executed is an error of kind
	// Refused, and leaves nothing behind. begin is called when all is set up
	// and before the command's first instruction; its error cancels the start,
	// with nothing left behind.
	Start(ctx context.Context, f Fence, spec schemas.Spec, begin func(context.Context) error) (Instance, error)

	// Capture freezes the session and adds its image to sink, which it never
	// commits. It returns with the session still frozen, after an error too if
	// Inspect says so. The caller then commits the image and calls Stop, or calls
	// Thaw. What can't be captured is found before anything is frozen, and is an
	// error of kind Refused with Blockers.
	Capture(ctx context.Context, f Fence, sink Sink) (Captured, error)

	// Thaw lets a frozen session run on. It does nothing to one that runs.
	Thaw(ctx context.Context, f Fence) error

	// Restore restores a session from source. begin is called when all is
	// restored and before the first instruction of any of its processes; if it
	// fails, the restored tree is destroyed without having run, and Restore
	// returns that error. Nothing else of that uid may be on the host.
	Restore(ctx context.Context, f Fence, spec schemas.Spec, source Source, boot schemas.Boot, begin func(context.Context) error) (Instance, error)

	// Stop kills what is left of the session and removes all that it had on
	// this host. It does nothing to a session that isn't there.
	Stop(ctx context.Context, f Fence) error

	// Inspect returns the state of one session on this host, or ErrNotHere. It changes
	// nothing, and may be called concurrently with any other call. A session that may
	// have executed an instruction since begin returned is here until Stop, at least
	// as Exited, even after a crash of the worker or the host.
	Inspect(ctx context.Context, uid schemas.UID) (Instance, error)

	// Recover lists the sessions on this host, by the state of the host alone: a worker
	// finds them so after its restart. It first removes what a crash left half started
	// or half restored. It is called once, before any other call.
	Recover(ctx context.Context) ([]Instance, error)
}

// Rehearser is implemented by drivers that can restore what they capture beside the session.
type Rehearser interface {
	// CaptureRehearsed is Capture that also restores the image in quarantine, up to its next
	// instruction, compares what was restored with the session, and kills it. If that fails,
	// or too much differs, the error is of kind Unrestorable; what differs less is among the
	// warnings. It has no effect on anything but this host's time.
	CaptureRehearsed(ctx context.Context, f Fence, sink Sink, which schemas.Rehearse) (Captured, error)
}

// Watcher is implemented by drivers that report the end of sessions.
type Watcher interface {
	// Exits delivers an Instance for each session that ended by itself, at
	// least once, until ctx ends.
	Exits(ctx context.Context) <-chan Instance
}

// Preflighter is implemented by drivers that can say, without freezing, what would
// prevent a capture now.
type Preflighter interface {
	Preflight(ctx context.Context, uid schemas.UID) ([]Blocker, error)
}

// Advisor is implemented by drivers that know, before a session starts, what this host can't do
// for it later.
type Advisor interface {
	// Advise returns what the user should be told at once; without At.
	Advise(spec schemas.Spec) []schemas.Warning
}

// Observer is implemented by drivers that see what a session does.
type Observer interface {
	Observe(ctx context.Context, uid schemas.UID) (Observation, error)
}

// Prober is implemented by drivers whose sessions may have a health check of their own.
type Prober interface {
	// Health returns the health of a session on this host. It changes nothing, and may be
	// called concurrently with any other call.
	Health(ctx context.Context, uid schemas.UID) (Health, error)
}

// Health is the result of a session's health check.
type Health struct {
	State HealthState
	Began time.Time // when its program was started last: a later time means that it was restarted
	Text  string    // one sentence, unless it is well
}

// HealthState is what a health check says.
type HealthState string

// The states of health.
const (
	Unchecked HealthState = "unchecked" // it runs, and there is no check
	Unknown   HealthState = "unknown"   // the check hasn't said anything yet
	Well      HealthState = "well"
	Ill       HealthState = "ill"
)

// Guarder is implemented by drivers whose sessions freeze by themselves, even without a
// worker, when the host's lease runs out: another host may resume them then. A session
// that doesn't freeze in time is killed.
type Guarder interface {
	// Renew tells a session that was started, restored or thawed with Guard of a renewal
	// that is known to be stored. It thaws nothing.
	Renew(ctx context.Context, f Fence) error
}

// Early is implemented by drivers that store most of a session while it runs on. No
// caller waits for that, so their images are made small rather than quickly.
type Early interface {
	StoresEarly() bool
}

// Late is implemented by drivers whose Start or Restore may fail after begin returned nil
// although the session has never run: Inspect then says ErrNotHere.
type Late interface {
	BeginsLate() bool
}

// Ender is implemented by drivers whose sessions others may start again once they have ended.
type Ender interface {
	// Ended is Stop for a session that is recorded to have ended by itself. What others have
	// started again since then runs on, and is offered.
	Ended(ctx context.Context, f Fence) error
}

// Releaser is implemented by drivers that may keep something of a session after Stop, for
// its next start.
type Releaser interface {
	// Release is called after Stop when the session is deleted: what was kept
	// can be removed.
	Release(ctx context.Context, f Fence) error
}

// Forgetter is implemented by drivers that note the epochs of sessions.
type Forgetter interface {
	// Forget is called after Stop and Release when the session is deleted, and no call for it comes
	// any more: its epoch needn't be known.
	Forget(ctx context.Context, f Fence) error
}

// Keeper is a Releaser that lists what it keeps.
type Keeper interface {
	Releaser
	// Kept lists the sessions of which something is kept on this host after Stop.
	Kept() ([]Kept, error)
}

// Kept is what a host keeps of a session after Stop.
type Kept struct {
	UID     schemas.UID
	Name    schemas.Name
	Epoch   uint64
	Foreign bool // it was there before the session, and stays when the session is deleted
}

// Rooted is implemented by drivers whose sessions may have the files of a container image below
// their own.
type Rooted interface {
	// Root gives that image, of a session that was started or restored here; nil if it has none.
	Root(uid schemas.UID) (*schemas.RootImage, error)
}

// Dialer is implemented by drivers that connect clients to their sessions. The connection
// speaks the protocol of package attach (attach, exec, copy, output).
type Dialer interface {
	Dial(ctx context.Context, uid schemas.UID) (net.Conn, error)
}

// Offerer is a driver that finds what is on this host and asks to become a session.
type Offerer interface {
	// Offers delivers what asks until ctx ends, and closes the channel then. It delivers
	// the same again unless that has become a session.
	Offers(ctx context.Context) <-chan Offer
}

// Offer is something on this host that asks to become a session.
type Offer struct {
	Name    string             // what it is called here
	Session string             // [tenant/]id of the session
	Asks    string             // what of it asks, as "its label x"
	Run     schemas.RunRequest // how it becomes one, but for the host
}

// Sink takes the entries of an image, one after the other. *image.Writer is
// one.
type Sink interface {
	Add(e image.Entry, content io.Reader) error
}

// Source gives the entries of a verified image. *image.Reader is one.
type Source interface {
	Entries() []image.Entry
	Open(name string) (io.ReadCloser, error)
}

// Checker is a Source that can check whether all of its parts are there and undamaged,
// without decrypting or keeping them. A driver that can't undo what it has restored calls it
// first. *image.Reader is one.
type Checker interface {
	CheckPacks(ctx context.Context) error
}

// Sequencer is a Source that can be told which files are going to be read by Open, once each
// and in which order: it keeps up to limit bytes of what it would otherwise decode more than
// once. *image.Reader is one.
type Sequencer interface {
	Sequence(names []string, limit int64)
	// Kept is how much it would keep, so that it decodes nothing more than once, in bytes.
	Kept(names []string) int64
}

// RandomReader is a Source whose files can be read at any offset: for a driver that brings
// back memory only when it is touched. *image.Reader is one.
type RandomReader interface {
	// ReaderAt gives the content of a file, or of the file that a hard link names, and its
	// size. What is read is verified, as with Open, and a hole reads as zeros. ReadAt may be
	// called concurrently until the source is closed; it fetches and decodes whole frames of
	// about a MiB, so that small reads should be close together. An error says nothing of
	// other ranges.
	ReaderAt(name string) (io.ReaderAt, int64, error)
}

// Fence is the right to act: the owner's epoch for one life of a session.
type Fence struct {
	UID   schemas.UID
	Name  schemas.Name
	Epoch uint64
	// Lease, if given, returns until when the host's lease lets the session run: a later
	// start, restore or thaw is refused with ErrNoLease. It is called as late as possible.
	Lease func() term.Renewal
	// Guard makes the session freeze by itself when the lease is over, if the driver is a
	// Guarder.
	Guard bool
	// Record, if given to a start or a restore, has the session's terminal recorded, if the driver is a
	// Recorder and the session has one.
	Record *Recording
}

// Recorder is implemented by drivers that record terminals as Fence.Record says. What is recorded when a capture
// hands over its image is spilled by then, as is all when a session has ended by itself.
type Recorder interface {
	// SealRecorded spills what was recorded so far of a session on this host.
	SealRecorded(ctx context.Context, uid schemas.UID) error
	// RedactShown takes what an expression matches out of what is held of a session's output on this host, and of what its terminal
	// shows.
	RedactShown(ctx context.Context, uid schemas.UID, expression string) error
}

// State of an instance on its host.
type State string

// The states of an instance.
const (
	Running State = "running"
	Frozen  State = "frozen"
	Exited  State = "exited"
)

// Instance is one session as its host has it.
type Instance struct {
	UID     schemas.UID
	Name    schemas.Name
	Epoch   uint64
	State   State
	PID     int                 // of the leader, as the host sees it; 0 if exited
	Started time.Time           // when this host started or restored it
	Exit    *schemas.ExitStatus // set when State is Exited
	Lost    bool                // with Exited: it didn't end by itself, what held it on this host is gone
	// Restarted, with Lost, says that the machine was restarted since. Where that isn't known it is false.
	Restarted bool
	Fenced    bool // it froze by itself, because the host's lease had run out
	Way       Way  // set by Restore alone: how its memory came back
}

// Captured says what a capture did.
type Captured struct {
	Frozen      time.Time     // when the freezer said so
	FreezeTook  time.Duration // from the order to the answer
	CaptureTook time.Duration // the driver's own dump, without the sink's work
	Fingerprint schemas.Fingerprint
	Warnings    []schemas.Warning // connections that will be closed, and the like; without At
	Way         Way               // memory or stream; "" where a driver has but one
	WhyWay      string            // one sentence
	Held        int64             // bytes of memory that the image took on this host, beside the session

	Rehearsed     bool          // by CaptureRehearsed, unless there was no need
	RehearsalTook time.Duration // part of it goes on while the sink works
}

// Way is how a driver takes an image's memory from a session to the sink, or
// back from the source.
type Way string

// The ways. An image in memory makes the dump itself shortest, and takes as much
// memory as the session. A stream takes none, and makes the dump as slow as
// the sink. Buffered, the stream runs ahead of the sink through what memory there
// is: the dump is nearly as short as in memory, and most of the image is stored
// when it is over. A restore knows the first two alone.
const (
	WayAuto     Way = "auto" // README.md of workers says which it takes
	WayMemory   Way = "memory"
	WayBuffered Way = "buffered"
	WayStream   Way = "stream"
)

// ParseWay reads what a person wrote.
func ParseWay(s string) (Way, error) {
	switch w := Way(s); w {
	case WayAuto, WayMemory, WayBuffered, WayStream:
		return w, nil
	}
	return "", fmt.Errorf("%q is none of auto, memory, buffered, stream", s)
}

// Observation is what a session does now.
type Observation struct {
	PID        int           // of the leader, as the host sees it; 0 if that is known to Inspect alone
	RSS        int64         // bytes held by its processes
	CPU        time.Duration // since it was started or restored on this host
	Processes  int
	Foreground string             // the terminal's foreground job if it isn't the leader, by name
	Execs      int                // commands started by exec that still run
	Inbound    int                // established TCP connections from outside the session
	Listens    []uint16           // the TCP ports at which its processes take connections, in order
	Status     string             // what it is, in a word, where it isn't simply running: paused, created, exited, restarting, unhealthy
	Commands   int64              // typed in its terminal since its first start, if that is recorded
	Input      time.Time          // when a VNC client last typed or pointed on its desktop; zero if none did since it came to run here
	Container  *schemas.Container // what it is here, unless that is a process tree
}

// Blocker is one thing that can't be captured, and what to do about it.
type Blocker struct {
	PID     int    // inside the session
	Program string // its comm
	What    string // "fd 7: io_uring", "mapping 7f…: /dev/dri/card0"
	Why     string // one sentence
	Fix     string // one sentence
}

func (b Blocker) String() string {
	return fmt.Sprintf("%s (pid %d), %s: %s; %s", b.Program, b.PID, b.What, b.Why, b.Fix)
}
