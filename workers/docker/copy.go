package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/treecopy"
)

// gates keep copies into containers apart from captures, by session: a copy is in the image as
// a whole, or comes after it.
type gates struct {
	mu sync.Mutex
	of map[schemas.UID]*sync.RWMutex
}

func (g *gates) gate(uid schemas.UID) *sync.RWMutex {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[schemas.UID]*sync.RWMutex{}
	}
	if g.of[uid] == nil {
		g.of[uid] = &sync.RWMutex{}
	}
	return g.of[uid]
}

// gateEvery is the time between two tries of a gate.
const gateEvery = 10 * time.Millisecond

// pass tries a gate until it opens or ctx ends.
func pass(ctx context.Context, try func() bool) error {
	for !try() {
		select {
		case <-time.After(gateEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// copyWait bounds how long a copy waits for the end of a capture.
const copyWait = 10 * time.Second

// enter waits until a session isn't being captured. No capture starts until leave is called.
func (t *talker) enter(ctx context.Context, uid schemas.UID) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, copyWait)
	defer cancel()
	gate := t.gates.gate(uid)
	var n note
	free := func() bool {
		if !gate.TryRLock() {
			return false
		}
		if n, err = t.notes.read(uid); err == nil && n.Phase == frozen {
			gate.RUnlock()
			return false
		}
		return true
	}
	if late := pass(ctx, free); late != nil {
		return nil, &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("session %s is being captured", n.Name), Hint: "try again"}
	}
	if err == nil && n.Phase != here {
		err = driver.ErrNotHere
	}
	if err != nil {
		gate.RUnlock()
		return nil, err
	}
	return gate.RUnlock, nil
}

// get sends a file or a directory of the container.
func (t *talker) get(ctx context.Context, n note, r attach.Request, conn io.Writer) error {
	root, err := t.rootOf(ctx, n)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := treecopy.Send(conn, root, r.Path); err != nil {
		return fmt.Errorf("copy out of session %s: %w", n.Name, err)
	}
	return nil
}

// put unpacks in the container what the client sends. It doesn't use the engine, which answers
// no request about a container during a copy, for as long as the client takes.
func (t *talker) put(ctx context.Context, n note, r attach.Request, conn io.ReadWriter) error {
	leave, err := t.enter(ctx, n.UID)
	if err != nil {
		return err
	}
	defer leave()
	root, err := t.rootOf(ctx, n)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := treecopy.Receive(conn, root, r.Path); err != nil {
		return fmt.Errorf("copy into session %s: %w", n.Name, err)
	}
	return nil
}

// rootOf opens the root directory of a container as its first process sees it, mounts included.
func (t *talker) rootOf(ctx context.Context, n note) (*os.File, error) {
	pid, err := t.firstPID(ctx, n)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the root of the container of session %s: %w", n.Name, err)
	}
	root := os.NewFile(uintptr(fd), "root")
	if again, err := t.firstPID(ctx, n); err != nil || again != pid { // the pid may be another process's by now
		root.Close()
		return nil, errors.Join(&driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("the container of session %s was stopped or restarted", n.Name), Hint: "try again"}, err)
	}
	return root, nil
}

func (t *talker) firstPID(ctx context.Context, n note) (pid int, err error) {
	got, err := t.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil {
		return 0, t.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	if pid = got.Container.State.Pid; pid == 0 {
		return 0, hinted(refuse("container %s of session %s doesn't run", got.Container.Name[1:], n.Name), "`docker cp` copies from and to containers that don't run")
	}
	return pid, nil
}
