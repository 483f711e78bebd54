package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// claims keep two drivers that share an engine from taking the same container.
type claims struct {
	engine *engine
	notes  *notes
	host   string // the instance
	log    *slog.Logger
}

// Several drivers may use one engine, each with notes of its own. A container that none of them
// made has no label that says whose session it is, so they tell each other where their notes
// are, in a directory beside the engine's own: whoever wants a container looks there. A note is
// the claim, so that it is given up with the note, and with the data directory.

// claimsDir is where, in the engine's data directory.
const claimsDir = "diapause"

const (
	claimsWait = 10 * time.Millisecond // before the lock on it is tried again
	claimsTime = 10 * time.Second      // bounds that: who has it may have been stopped
)

// claimant is a driver that has, or had, sessions of containers that it didn't make.
type claimant struct {
	Host  string `json:"host"`
	Notes string `json:"notes"` // their directory
}

// directory gives the directory, which need not be there, "" if the engine keeps its data where
// this host doesn't see them.
func (cs *claims) directory(ctx context.Context) (string, error) {
	got, err := cs.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return "", cs.engine.failed("learn where it keeps its data", err)
	}
	root := got.Info.DockerRootDir
	if there, err := exists(root); err != nil || !there || !filepath.IsAbs(root) {
		return "", nil
	}
	return filepath.Join(root, claimsDir), nil
}

// register tells other drivers where this one's notes are, and keeps them from taking a
// container until unlock is called. Where that can't be written they aren't told.
func (cs *claims) register(ctx context.Context) (unlock func(), err error) {
	unlock = func() {}
	dir, err := cs.directory(ctx)
	if err != nil || dir == "" {
		return unlock, err
	}
	wait, done := context.WithTimeout(ctx, claimsTime)
	defer done()
	lock, err := lockDir(wait, dir)
	if err == nil {
		unlock = func() { _ = lock.Close() } // nothing was written to it
		err = cs.announce(dir)
	}
	if err != nil && ctx.Err() == nil {
		cs.log.Warn("another Diapause on this Docker engine can't be told which containers are sessions of this one, and could take them", "in", dir, "err", err)
	}
	return unlock, ctx.Err()
}

// lockDir makes a directory and locks it until it is closed, or the process ends.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		}
		select {
		case <-time.After(claimsWait):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the lock on %s: %w", dir, ctx.Err()), f.Close())
		}
	}
}

// announce writes where this driver's notes are, and removes what says so of those that are gone.
func (cs *claims) announce(dir string) error {
	sum := sha256.Sum256([]byte(cs.notes.dir))
	file := filepath.Join(dir, hex.EncodeToString(sum[:8])+".json")
	data, err := json.Marshal(claimant{Host: cs.host, Notes: cs.notes.dir})
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, data) {
		if err := replaceFile(file, data); err != nil {
			return err
		}
	}
	all, err := claimants(dir)
	for f, c := range all {
		if there, err := exists(c.Notes); err == nil && !there {
			_ = os.Remove(f) // or the next one does
		}
	}
	return err
}

// claimants gives who has said where its notes are, by the file that says it.
func claimants(dir string) (map[string]claimant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list who uses the engine: %w", err)
	}
	all := map[string]claimant{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var c claimant
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		if err != nil {
			return nil, fmt.Errorf("read in %s who uses the engine: %w", f, err)
		}
		all[f] = c
	}
	return all, nil
}

// claimed gives the session that a container is with another driver, and whose; a nil
// claimant is nobody.
func (cs *claims) claimed(ctx context.Context, id string, labels map[string]string) (*claimant, schemas.Name, error) {
	dir, err := cs.directory(ctx)
	if err != nil || dir == "" {
		return nil, schemas.Name{}, err
	}
	all, err := claimants(dir)
	if err != nil {
		return nil, schemas.Name{}, err
	}
	for _, f := range sortedNames(all) {
		c := all[f]
		if c.Notes == cs.notes.dir {
			continue
		}
		theirs := notes{dir: c.Notes}
		has, err := theirs.all()
		if err != nil {
			return &c, schemas.Name{}, err
		}
		for _, n := range has {
			if n.claims(id, labels) {
				return &c, n.Name, nil
			}
		}
	}
	return nil, schemas.Name{}, nil
}

// claim notes that a container becomes a session, unless it is one already.
func (cs *claims) claim(ctx context.Context, c *container.InspectResponse, n note) error {
	unlock, err := cs.register(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := cs.checkUnowned(ctx, c); err != nil {
		return err
	}
	if err := cs.notes.write(n); err != nil {
		n.Phase, n.Container = gone, ""
		return errors.Join(err, cs.notes.write(n))
	}
	return nil
}

// checkUnowned refuses a container that is a session already, here or of another driver.
func (cs *claims) checkUnowned(ctx context.Context, c *container.InspectResponse) error {
	name, labels := c.Name[1:], c.Config.Labels
	all, err := cs.notes.all()
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.claims(c.ID, labels) {
			return refuse("container %s is session %s already", name, n.Name)
		}
	}
	by, session, err := cs.claimed(ctx, c.ID, labels)
	switch {
	case err != nil && by != nil:
		return refuse("whether container %s is a session of another Diapause can't be told: its host is %s, and its data are in %s: %v", name, by.Host, by.Notes, err)
	case err != nil:
		return err
	case by != nil:
		return refuse("container %s is session %s of another Diapause already: its host is %s, and its data are in %s (`diapause rm` there lets go of the container)", name, session, by.Host, by.Notes)
	}
	if uid := labels[labelUID]; uid != "" && labels[labelHost] != cs.host {
		session := labels[labelSession]
		if session == "" {
			session = uid
		}
		return refuse("container %s is session %s of another Diapause, whose host is %s", name, session, labels[labelHost])
	}
	return nil
}
