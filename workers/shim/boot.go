package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/control"
)

// boot is one start or restore of the session: what both share, until the session runs
// and its limits hold.
type boot struct {
	setup   Setup
	worker  *control.Conn // asked for it
	place   place
	tree    *processes
	beside  *cgroup.Group  // the shim's own, which is never frozen
	online  *online        // the session's private network, if it has one
	pending *pendingOnline // what becomes online
	guard   *guard
	points  *points
	state   *stateFile

	generation uint64
	terminals  *os.File // what mountTerminals gave, of a restore
	rehearsed  string   // as meta has it, of a restore
	ran        bool     // the session was let run, and may have executed something
	warnings   []schemas.Warning
}

var errNoGo = errors.New("the worker cancelled it")

// ask reports to the worker that all is ready, and waits for its answer.
func (b *boot) ask() error {
	if err := b.worker.Send(Message{Phase: PhaseReady, Warnings: b.warnings}); err != nil {
		return err
	}
	var a Answer
	if _, err := b.worker.Receive(&a); err != nil {
		return fmt.Errorf("the worker is gone: %w", err)
	}
	if !a.Go {
		return errNoGo
	}
	return b.guard.hear(a.Lease)
}

// limitWait bounds the wait for memory that the kernel can still reclaim.
const limitWait = 5 * time.Second

// limit sets the session's limits. It comes last because what starts or restores a
// session may not fit into them.
func (b *boot) limit() error {
	if err := b.setLimits(); err != nil && b.tree.alive() == nil && !dead(b.tree.init) {
		return &driver.Error{Kind: driver.Broken, Err: err, Text: fmt.Sprintf("session %s was killed: its limits can't be set", b.setup.Name)}
	}
	return nil
}

func (b *boot) setLimits() error {
	spec := b.setup.Spec
	limits := cgroup.Limits{Memory: spec.Memory, CPUs: spec.CPUs, Pids: spec.Pids}
	if limits == (cgroup.Limits{}) {
		return nil
	}
	err := b.tree.group.SetLimits(limits)
	for deadline := time.Now().Add(limitWait); errors.Is(err, unix.EBUSY) && time.Now().Before(deadline); {
		time.Sleep(limitWait / 100)
		err = b.tree.group.SetLimits(limits)
	}
	return err
}

// ranFirst makes the error of a start or a restore Broken if the session may have
// executed something: it must not be started from the same image as if it hadn't.
func (b *boot) ranFirst(err error) error {
	if !b.ran || driver.KindOf(err) == driver.Broken {
		return err
	}
	return &driver.Error{Kind: driver.Broken, Text: fmt.Sprintf("session %s had run already, and was killed", b.setup.Name), Err: err}
}

// undoWait bounds the wait for killed processes to be gone.
const undoWait = 30 * time.Second

// undo removes the tree after a failed boot. If it may have executed something, its
// state file stays, with its end: the worker may be dead, and the next one must know.
func (b *boot) undo(cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), undoWait)
	defer cancel()
	// The worker finds what is left after this by its cgroup.
	_ = b.tree.group.Kill(ctx)
	if b.tree.init != 0 {
		_, _ = unix.Wait4(b.tree.init, nil, 0, nil)
	}
	_ = b.awaitOnline() // cause is why it isn't needed
	b.online.close()
	if !b.ran {
		_ = b.state.remove()
		return
	}
	exit := schemas.ExitStatus{Code: 137, Signal: 9, Reason: cause.Error()}
	_ = b.state.end(exit, true) // the file says already that it ran
}

// generationFile is the content of stage.GenerationPath, which programs inside read.
type generationFile struct {
	Generation uint64       `json:"generation"`
	Boot       schemas.Boot `json:"boot"`
	Name       string       `json:"name"`
	UID        schemas.UID  `json:"uid"`
	At         time.Time    `json:"at"`
	URL        string       `json:"url,omitempty"`
}

func (b *boot) generationContent() ([]byte, error) {
	content, err := json.Marshal(generationFile{b.generation, b.setup.Boot, b.setup.Name.String(), b.setup.UID, time.Now().UTC(), b.online.url(b.setup.URL)})
	if err != nil {
		return nil, fmt.Errorf("encode the generation: %w", err)
	}
	return append(content, '\n'), nil
}
