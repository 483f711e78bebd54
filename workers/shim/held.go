package shim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
)

// heldTree keeps a restored tree from its first instruction until criu has detached from it
// and all of it is known to be alive: what is killed before has never run.
type heldTree struct {
	boot    *boot
	members []int        // the tree's processes when criu had restored all
	told    bool         // criu was told to go on, and from then on holds the tree by tracing it
	outside func() error // waits until criu is out of the tree's cgroup

	mu     sync.Mutex
	let    bool // criu is about to detach
	frozen bool // the tree stands frozen, which criu doesn't undo
	killed bool // a process of it was killed while criu traced it, and then all of it
}

// criuProcess is a criu that restores.
type criuProcess interface {
	PID() int
	KillRestore()
}

// restored is called when criu has restored all and waits. It takes criu out of the tree's
// cgroup, which can be frozen without it then: goOn waits for that, since the kernel takes 10 ms
// for it, and other things are to be done meanwhile.
func (u *heldTree) restored(p criuProcess, init int) {
	u.boot.tree.init = init
	u.outside = sync.OnceValue(func() error { return u.boot.beside.Take(p.PID()) })
	go func() { _ = u.outside() }()
	for _, pid := range append(descendants(init), init) {
		if !dead(pid) { // it was a zombie when it was captured
			u.members = append(u.members, pid)
		}
	}
}

// goOn is called when criu is about to be told to go on: from then on its end sets the
// tree free.
func (u *heldTree) goOn(p criuProcess) error {
	err := u.outside()
	if errors.Is(err, unix.ESRCH) {
		return u.unfinished()
	}
	if err != nil {
		return fmt.Errorf("move criu out of the session: %w", err)
	}
	if err := u.alive(); err != nil {
		return err
	}
	if dead(p.PID()) {
		return u.unfinished()
	}
	u.told, u.boot.ran = true, true
	return nil
}

// hold freezes the tree while criu traces all of it at its next instruction. If it can't
// be frozen it runs when criu detaches.
func (u *heldTree) hold(p criuProcess) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.let = true
	if err := u.boot.points.at(failpoint.ShimTraced); err != nil {
		return
	}
	if u.endKilled(p); u.killed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), freezeLimit)
	defer cancel()
	if err := u.boot.tree.group.Freeze(ctx); err != nil {
		_ = u.boot.tree.group.Thaw() // or criu might wait for what stands already
		return
	}
	u.frozen, u.boot.ran = true, false
}

// failed gives the error of a restore that criu didn't finish.
func (u *heldTree) failed(err, explained error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	// What is traced by a criu with that mend dies with it.
	never := !u.told || u.frozen || u.killed || u.boot.setup.EndsWithCriu
	if u.boot.ran = !never; u.boot.ran {
		return &driver.Error{
			Kind: driver.Broken, Err: explained,
			Text: fmt.Sprintf("session %s was lost when it ran on; its image is unchanged", u.boot.setup.Name),
		}
	}
	switch {
	case u.killed, u.outOfMemory():
		return u.lack()
	case errors.Is(err, rpc.ErrKilled):
		return u.unfinished()
	}
	return explained
}

// thaw lets the tree execute its first instruction, if all of it is alive.
func (u *heldTree) thaw() error {
	b := u.boot
	switch {
	case u.killed:
		b.ran = false
		return u.lack()
	case !u.frozen:
		return b.limit() // it runs already
	}
	if err := b.points.at(failpoint.ShimHeld); err != nil {
		return err
	}
	if err := u.limit(); err != nil {
		return err
	}
	if err := u.alive(); err != nil {
		return err
	}
	b.ran = true
	err := b.guard.release(false)
	if errors.Is(err, driver.ErrNoLease) {
		b.ran = false // it stays frozen
	}
	return err
}

// limit sets the session's limits before it runs: criu may have needed more.
func (u *heldTree) limit() error {
	err := u.boot.setLimits()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY) && u.boot.setup.Spec.Memory > 0:
		return u.starved()
	}
	return fmt.Errorf("set the limits of session %s: %w", u.boot.setup.Name, err)
}

// alive returns an error if a process of the tree is dead, or about to be.
func (u *heldTree) alive() error {
	for _, pid := range u.members {
		if dead(pid) || dying(pid) {
			return u.lack()
		}
	}
	return nil
}

func (u *heldTree) outOfMemory() bool {
	kills, err := u.boot.tree.group.OOMKills()
	return err == nil && kills > 0
}

// The errors of a tree that never ran.

// lack is that of one with a process that was killed.
func (u *heldTree) lack() error {
	if u.outOfMemory() {
		return u.starved()
	}
	return u.transient("one of its processes was killed while it was restored")
}

func (u *heldTree) unfinished() error { return u.transient("criu was killed while it restored it") }

func (u *heldTree) transient(why string) error {
	return &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("session %s hasn't run: %s", u.boot.setup.Name, why)}
}

func (u *heldTree) starved() error {
	s := u.boot.setup
	if s.Spec.Memory <= 0 {
		return &driver.Error{
			Kind: driver.Transient, Text: fmt.Sprintf("session %s hasn't run: this host had no memory for it", s.Name),
			Hint: "free memory on this host, or raise the limit of the cgroup that Diapause is in",
		}
	}
	return &driver.Error{
		Kind: driver.Refused, Text: fmt.Sprintf("session %s doesn't fit into its memory limit of %s", s.Name, schemas.Bytes(s.Spec.Memory)),
		Hint: "raise the limit of the session, or of the cgroup that Diapause is in",
	}
}

// The time that criu has to end after its tree has died, and how often that is looked at:
// there is no signal.
const (
	letGoLimit = 300 * time.Millisecond
	letGoLook  = 20 * time.Millisecond
)

// watch ends the tree if one of its processes is killed while criu traces it, for criu may
// wait for that one for ever; and a criu that outlives the tree. It returns when ended is closed.
func (u *heldTree) watch(p criuProcess, ended <-chan struct{}) {
	tick := time.NewTicker(letGoLook)
	defer tick.Stop()
	for gone := time.Duration(0); gone < letGoLimit; {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		u.mu.Lock()
		if !u.let {
			u.endKilled(p)
		}
		if u.killed || dead(u.boot.tree.init) {
			gone += letGoLook
		}
		u.mu.Unlock()
	}
	p.KillRestore()
}

// endKilled kills all processes of a tree of which one was killed. As long as criu lives, what
// it traces stands still: nothing has run, and nothing will. Callers hold mu.
func (u *heldTree) endKilled(p criuProcess) {
	if u.killed || u.alive() == nil {
		return
	}
	for _, pid := range u.members {
		_ = unix.Kill(pid, unix.SIGKILL) // one that is gone is killed
	}
	u.killed = !dead(p.PID())
}

// dead reports whether a process has ended.
func dead(pid int) bool {
	state := strings.TrimSpace(statusLine(pid, "State:"))
	return state == "" || state[0] == 'Z' || state[0] == 'X'
}

// dying reports whether a process was sent SIGKILL: one that is frozen dies of it when it
// is thawed.
func dying(pid int) bool {
	for _, line := range []string{"SigPnd:", "ShdPnd:"} {
		set, err := strconv.ParseUint(strings.TrimSpace(statusLine(pid, line)), 16, 64)
		if err == nil && set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}
