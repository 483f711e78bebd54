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
	"github.com/diapause/diapause/workers/driver"
)

// claims keep two drivers that share an engine from taking the same container.
type claims struct {
	engine *engine
	notes  *notes
	host   string // the instance
	log    *slog.Logger
}

// Several drivers may use one engine, each with notes of its own. An adopted container has no
// label that says whose session it is. So each driver writes where its notes are into a
// directory beside the engine's own, and reads the notes of the others before it adopts a
// container. The note is the claim: it ends with the note, or with the data directory.

// claimsDir is that directory's name in the engine's data directory.
const claimsDir = "diapause"

const (
	claimsWait = 10 * time.Millisecond // between two tries to lock it
	claimsTime = 10 * time.Second      // bounds the tries: the process that holds the lock may be stopped
)

// claimant is a driver that adopts, or adopted, containers.
type claimant struct {
	Host  string `json:"host"`
	Notes string `json:"notes"` // their directory
}

// directory gives the path of the directory, which may not exist yet. It is "" if the engine's
// data directory isn't visible here.
func (cs *claims) directory(ctx context.Context) (string, error) {
	got, err := cs.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return "", cs.engine.failed("find its data directory", err)
	}
	root := got.Info.DockerRootDir
	if there, err := exists(root); err != nil || !there || !filepath.IsAbs(root) {
		return "", nil
	}
	return filepath.Join(root, claimsDir), nil
}

// register writes where this driver's notes are, for other drivers, and keeps them from adopting
// a container until unlock is called. It only logs it if that can't be written.
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
		cs.log.Warn("announce the containers of this Diapause: another one on this Docker engine could take them", "in", dir, "err", err)
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
		if err == nil && isAt(f, dir) {
			return f, nil
		}
		if err == nil { // its last user removed it meanwhile
			_ = f.Close() // nothing was written to it
			return lockDir(ctx, dir)
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

// isAt reports whether an open directory is the one of a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}

// withdraw removes this driver's entry if it has no notes, and the directory with the last entry. It
// only logs what it can't do: the next driver that comes removes the entry with the data directory.
func (cs *claims) withdraw(ctx context.Context) {
	all, err := cs.notes.all()
	if err != nil || len(all) > 0 {
		return
	}
	dir, err := cs.directory(ctx)
	if there, _ := exists(dir); err != nil || dir == "" || !there {
		return
	}
	wait, done := context.WithTimeout(ctx, claimsTime)
	defer done()
	lock, err := lockDir(wait, dir)
	if err == nil {
		defer lock.Close()
		all, err = cs.notes.all() // a claim is written under the lock
	}
	if err == nil && len(all) == 0 {
		err = os.Remove(filepath.Join(dir, cs.entry()))
		_ = os.Remove(dir) // not while it has entries of others
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		cs.log.Warn("remove the entry of this Diapause, which has no containers any more", "in", dir, "err", err)
	}
}

// entry is the name of this driver's file in that directory.
func (cs *claims) entry() string {
	sum := sha256.Sum256([]byte(cs.notes.dir))
	return hex.EncodeToString(sum[:8]) + ".json"
}

// announce writes where this driver's notes are, and removes the entries of drivers whose notes
// no longer exist.
func (cs *claims) announce(dir string) error {
	file := filepath.Join(dir, cs.entry())
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
			_ = os.Remove(f) // otherwise the next driver does
		}
	}
	return err
}

// claimants gives the drivers that have announced themselves, by file.
func claimants(dir string) (map[string]claimant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the engine's users: %w", err)
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
			return nil, fmt.Errorf("read the engine's user in %s: %w", f, err)
		}
		all[f] = c
	}
	return all, nil
}

// claimed gives the session of another driver that a container belongs to, and that driver: nil if
// there is none.
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

// claim notes that a container becomes a session. It fails if it is one already.
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

// checkUnowned fails if a container is a session already, of this driver or another one.
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
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("check whether container %s is a session of host %s, in %s", name, by.Host, by.Notes), Err: err}
	case err != nil:
		return err
	case by != nil:
		return hinted(refuse("container %s is session %s of another Diapause: host %s, in %s", name, session, by.Host, by.Notes), "`diapause rm` there gives the container up")
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
