package criu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
)

// Recover lists the sessions on this host, and removes what was left half made.
func (d *Driver) Recover(ctx context.Context) ([]driver.Instance, error) {
	_ = removeStrays("/tmp", time.Now()) // where criu makes them; one that stays takes nothing but its name
	uids, err := d.shims.known()
	if err != nil {
		return nil, err
	}
	if err := d.fences.prune(uids, time.Now()); err != nil {
		return nil, err
	}
	if err := d.releaseTrials(); err != nil {
		return nil, err
	}
	found := make([]*driver.Instance, len(uids))
	var g errgroup.Group
	g.SetLimit(recoverAtOnce)
	for i, uid := range uids {
		g.Go(func() (err error) {
			found[i], err = d.shims.recoverSoon(ctx, uid)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var all []driver.Instance
	for _, i := range found {
		if i == nil {
			continue
		}
		all = append(all, *i)
		if i.State != driver.Exited {
			d.watchers.add(i.UID)
		}
	}
	return all, nil
}

// What Recover waits for one session, and how many it asks at a time.
const (
	recoverWait   = 5 * time.Second
	recoverAtOnce = 32
)

// recoverSoon recovers a session whose shim answers in time, or has ended; nil if there is
// nothing of it. If its shim is stopped or hangs, the state file counts, so that other
// sessions are found in time. The next call for the session asks its shim again.
func (h *shims) recoverSoon(ctx context.Context, uid schemas.UID) (*driver.Instance, error) {
	soon, cancel := context.WithTimeout(ctx, recoverWait)
	defer cancel()
	i, err := h.recoverOne(soon, uid)
	switch {
	case err == nil:
		return &i, nil
	case errors.Is(err, driver.ErrNotHere):
		return nil, nil
	case soon.Err() == nil || ctx.Err() != nil:
		return nil, fmt.Errorf("recover session %s: %w", uid, err)
	}
	state, err := h.readState(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	i = instanceOf(state, false)
	return &i, err
}

// known lists every uid of which there is a trace.
func (h *shims) known() ([]schemas.UID, error) {
	seen := make(map[schemas.UID]bool)
	var all []schemas.UID
	add := func(name string) {
		if uid := schemas.UID(name); checkUID(uid) == nil && !seen[uid] {
			seen[uid] = true
			all = append(all, uid)
		}
	}
	for _, dir := range []string{h.dir.sessions, h.dir.run} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("look for sessions: %w", err)
		}
		for _, e := range entries {
			name, _, _ := strings.Cut(e.Name(), ".")
			add(name)
		}
	}
	groups, err := h.hierarchy.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range groups {
		if rest, ok := strings.CutPrefix(name, "s-"); ok {
			add(rest)
		} else if rest, ok := strings.CutPrefix(name, "m-"); ok {
			add(rest)
		} else if rest, ok := strings.CutPrefix(name, "r-"); ok {
			add(rest)
		}
	}
	return all, nil
}

func (h *shims) recoverOne(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	i, err := h.status(ctx, uid)
	if err == nil {
		return i, nil
	}
	// There is no shim, or one that was starting when its worker died. That one undoes
	// what it did and ends, or gets ready and answers.
	lock, err := h.awaitLock(ctx, uid)
	if err != nil {
		return driver.Instance{}, err
	}
	lock.Close()
	return h.bury(ctx, uid)
}

// bury notes the end of a session whose shim is dead, if it has run: that is reported
// until Stop. What is left of its processes is killed.
func (h *shims) bury(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	state, err := h.readState(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Instance{}, errors.Join(driver.ErrNotHere, h.remove(ctx, uid))
	}
	if err != nil {
		return driver.Instance{}, err
	}
	if err := h.killTree(ctx, uid); err != nil {
		return driver.Instance{}, err
	}
	if state.Exit == nil {
		state = buried(state)
		b, err := json.Marshal(state)
		path := h.runFile(shim.StateFile(uid))
		if err == nil {
			err = writeSynced(path+".new", string(b))
		}
		if err == nil {
			err = os.Rename(path+".new", path) // others read it meanwhile
		}
		if err != nil {
			return driver.Instance{}, fmt.Errorf("write down the end of session %s: %w", state.Name, err)
		}
	}
	return instanceOf(state, false), nil
}

// buried is the state of a session whose shim is dead: it ended with the shim.
func buried(s shim.State) shim.State {
	if s.Exit == nil {
		why := "the session's shim was killed, or the host was restarted" // an earlier version started it
		switch now := shim.MachineBoot(); {
		case s.Machine == "" || now == "":
		case s.Machine == now:
			why = "the session's shim was killed"
		default:
			why, s.Restarted = "the host was restarted", true
		}
		s.Exit = &schemas.ExitStatus{Code: 137, Signal: 9, Reason: why}
		s.PID, s.Lost = 0, true
	}
	return s
}
