package shim

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/confine/limits"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/hide"
	"github.com/diapause/diapause/workers/inventory"
)

// ControlFD is the descriptor on which a shim gets its end of the control
// socket.
const ControlFD = 3

// Setup is the first message to a new shim, with all that it needs.
type Setup struct {
	UID    schemas.UID  `json:"uid"`
	Name   schemas.Name `json:"name"`
	Epoch  uint64       `json:"epoch"`
	Spec   schemas.Spec `json:"spec"`
	Boot   schemas.Boot `json:"boot"` // anything but clean is a restore
	Data   string       `json:"data"`
	Dir    string       `json:"dir"` // the session's own directory: upper, work and places to mount
	Run    string       `json:"run"` // where sockets, locks and state files are
	Cgroup string       `json:"cgroup"`
	Criu   []string     `json:"criu"` // criu's command line
	// EndsWithCriu says that what criu restores dies with it as long as it traces that.
	EndsWithCriu bool     `json:"ends_with_criu,omitempty"`
	Self         []string `json:"self"` // the command line that runs this binary so that it calls Main

	// LayerSize is the size of a file system for the private layer, in bytes; with 0 the layer
	// is a directory. LayerGiven says that it comes with the image.
	LayerSize  int64 `json:"layer_size,omitempty"`
	LayerGiven bool  `json:"layer_given,omitempty"`

	Limits limits.Limits `json:"limits"` // of Spec, as package confine has them

	Hidden []hide.Path `json:"hidden,omitempty"` // what the session doesn't see of its root

	// ImageRoot says that the root below is a container image's: it lacks what container engines
	// put into one.
	ImageRoot bool `json:"image_root,omitempty"`

	// URL is the server that programs in the session may publish activity to.
	URL string `json:"url,omitempty"`
	// Door says that the worker has a door for activity in Data, see activityport: to a server that wants credentials.
	Door bool `json:"door,omitempty"`

	Failpoints string `json:"failpoints,omitempty"` // as in Order

	Record *driver.Recording `json:"record,omitempty"` // nil: its terminal isn't recorded
}

// Base is the root below the session.
func (s Setup) Base() string {
	if s.Spec.Root == "" {
		return "/"
	}
	return s.Spec.Root
}

func (s Setup) emptyNetwork() bool   { return s.Spec.Network == schemas.NetworkNone }
func (s Setup) privateNetwork() bool { return s.Spec.Network == schemas.NetworkPrivate }

// networkAdmin reports whether processes of the session may change its network.
func (s Setup) networkAdmin() bool { return s.Limits.Capabilities&(1<<unix.CAP_NET_ADMIN) != 0 }

// The names of a session's cgroups below the parent.
func SessionGroup(uid schemas.UID) string { return "s-" + string(uid) }
func ShimGroup(uid schemas.UID) string    { return "m-" + string(uid) }

// The names of a session's files in the run directory.
func ControlSocket(uid schemas.UID) string { return string(uid) + ".ctl" }
func StreamSocket(uid schemas.UID) string  { return string(uid) + ".sock" }
func LockFile(uid schemas.UID) string      { return string(uid) + ".lock" }
func StateFile(uid schemas.UID) string     { return string(uid) + ".json" }

// State is what a state file says: nothing secret. It is written before the
// tree's first instruction, so without one the tree has not run on this host.
type State struct {
	UID       schemas.UID         `json:"uid"`
	Name      schemas.Name        `json:"name"`
	Epoch     uint64              `json:"epoch"`
	Boot      schemas.Boot        `json:"boot"`
	Started   time.Time           `json:"started"`
	Shim      int                 `json:"shim"` // its pid
	PID       int                 `json:"pid"`  // of the session's leader, on the host
	Exit      *schemas.ExitStatus `json:"exit,omitempty"`
	Lost      bool                `json:"lost,omitempty"`      // with Exit: its shim was gone first
	Machine   string              `json:"machine,omitempty"`   // MachineBoot when the shim was started
	Restarted bool                `json:"restarted,omitempty"` // with Lost: the machine was, since then
}

// The phases that a shim reports while it starts or restores a session, and
// while it captures one.
const (
	PhaseScratch = "scratch" // restore: with the directories for the image and the middle layer, and the private layer
	PhaseReady   = "ready"   // all is set up, nothing has run; waits for an Answer
	PhasePages   = "pages"   // with one end of a pipe: what Name has goes from it, or into it
	PhaseRunning = "running" // the last message of a start or a restore
	PhaseDumped  = "dumped"  // capture: with the directories, or the layer's file, to read from; waits for an Answer
	PhaseDone    = "done"    // the last message of an order

	// PhaseRehearsed comes after PhaseDumped if its Dump says that it rehearses; the Answer
	// to PhaseDumped is sent after it, but for one that gives up.
	PhaseRehearsed = "rehearsed"
)

// Message is a message of a shim. One with a Failure is the last one.
type Message struct {
	Phase    string              `json:"phase,omitempty"`
	Name     string              `json:"name,omitempty"`     // of one of criu's images, with PhasePages
	Room     int64               `json:"room,omitempty"`     // bytes of memory that may buffer criu's images
	Warnings []schemas.Warning   `json:"warnings,omitempty"` // of a restore, with PhaseReady
	Failure  *Failure            `json:"failure,omitempty"`
	State    *State              `json:"state,omitempty"`
	Frozen   bool                `json:"frozen,omitempty"`
	Fenced   bool                `json:"fenced,omitempty"` // by itself, because the lease ran out
	Dump     *Dump               `json:"dump,omitempty"`
	Blockers []driver.Blocker    `json:"blockers,omitempty"`
	Seen     *driver.Observation `json:"seen,omitempty"`
}

// Dump is what a capture did, and what its image must hold.
type Dump struct {
	Frozen     time.Time     `json:"frozen"`
	FreezeTook time.Duration `json:"freeze_took"`
	DumpTook   time.Duration `json:"dump_took"`
	Warnings   Warnings      `json:"warnings,omitempty"`
	Lower      []LowerFile   `json:"lower,omitempty"` // of the lower layers, what is in use
	Base       string        `json:"base,omitempty"`  // the lowest one
	Layer      string        `json:"layer,omitempty"` // LayerFile, or nothing if it is a directory
	Way        driver.Way    `json:"way"`             // memory, buffered or stream
	WhyWay     string        `json:"why_way"`         // one sentence
	Held       int64         `json:"held"`            // bytes of memory that the image took beside the session
	Parts      []driver.Part `json:"parts,omitempty"` // what the shim's steps took, from the order on
	Rehearses  bool          `json:"rehearses,omitempty"`

	RehearsalTook time.Duration `json:"rehearsal_took,omitempty"` // with PhaseRehearsed

	before    *inventory.Inventory // if it rehearses, or was to
	digest    string               // of the last rehearsal, this one included
	large     *largeImages
	rehearsal *rehearsal

	limited bool // the image's memory is bounded, and there is another way
	spills  bool // the disk took what was recorded before the freeze
	laps    *driver.Laps
	ahead   int64 // how far a stream may run ahead of the store, in bytes
}

// Answer is the worker's: go on, or undo. For a restore from a stream it lists
// criu's images that aren't in scratch memory, and are asked for by PhasePages.
type Answer struct {
	Go     bool     `json:"go"`
	Served []string `json:"served,omitempty"`
	Lease  *Lease   `json:"lease,omitempty"` // with Go of a start or a restore
}

// Order is a worker's request on the control socket.
type Order struct {
	Op    string     `json:"op"`
	Epoch uint64     `json:"epoch,omitempty"`
	Way   driver.Way `json:"way,omitempty"`  // of a capture
	Room  int64      `json:"room,omitempty"` // of a capture: bytes of memory for images; 0: what is free

	Rehearse schemas.Rehearse `json:"rehearse,omitempty"` // of a capture; not at all if empty

	Promised int64 `json:"promised,omitempty"` // bytes of Room that other captures and restores may take

	Lease *Lease `json:"lease,omitempty"` // of a thaw or a renewal

	Match string `json:"match,omitempty"` // of OrderRedact: a regular expression, as schemas.RedactRequest has it

	Failpoints string `json:"failpoints,omitempty"` // the armed failpoints, as package failpoint reads them
}

// The orders. Capture, thaw and stop are fenced by the epoch.
const (
	OrderStatus    = "status"
	OrderWait      = "wait" // answers when the session has ended
	OrderCapture   = "capture"
	OrderThaw      = "thaw"
	OrderStop      = "stop"
	OrderRenew     = "renew" // the host's lease was renewed
	OrderPreflight = "preflight"
	OrderObserve   = "observe"
	OrderRecord    = "record" // spill what was recorded
	OrderRedact    = "redact" // take something out of what is kept of the output and shown
)

// Failure is an error that a shim sends to a worker.
type Failure struct {
	Kind     driver.Kind      `json:"kind"`
	Text     string           `json:"text"`
	Hint     string           `json:"hint,omitempty"`
	Code     string           `json:"code,omitempty"`
	Engine   bool             `json:"engine,omitempty"`
	Blockers []driver.Blocker `json:"blockers,omitempty"`
	Stale    bool             `json:"stale,omitempty"`
	Passing  bool             `json:"passing,omitempty"`
	NoLease  bool             `json:"no_lease,omitempty"`
}

// ErrPassing is the cause of a failure that may not happen at the next attempt.
var ErrPassing = errors.New("it may pass")

func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	text, hint := driver.HintOf(err)
	f := &Failure{
		Kind: driver.KindOf(err), Text: text, Hint: hint, Code: driver.CodeOf(err), Engine: driver.RefusedByEngine(err),
		Stale: errors.Is(err, driver.ErrStale), Passing: errors.Is(err, ErrPassing), NoLease: errors.Is(err, driver.ErrNoLease),
	}
	var e *driver.Error
	if errors.As(err, &e) && len(e.Blockers) > 0 {
		f.Text, f.Blockers = e.Text, e.Blockers
	}
	return f
}

// Err returns the error that f was made of.
func (f *Failure) Err() error {
	switch {
	case f == nil:
		return nil
	case f.Stale:
		return driver.ErrStale
	case f.NoLease:
		return &driver.Error{Kind: f.Kind, Text: strings.TrimSuffix(f.Text, ": "+driver.ErrNoLease.Error()), Err: driver.ErrNoLease, Hint: f.Hint}
	case f.Passing:
		return &driver.Error{Kind: f.Kind, Text: strings.TrimSuffix(f.Text, ": "+ErrPassing.Error()), Err: ErrPassing, Hint: f.Hint}
	}
	return &driver.Error{Kind: f.Kind, Text: f.Text, Blockers: f.Blockers, Hint: f.Hint, Code: f.Code, Engine: f.Engine}
}
