package adopted

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// phase is how far a session of this host is.
type phase string

const (
	joining   phase = "joining"   // its tree is put into its cgroup; it was never recorded to run
	restoring phase = "restoring" // nothing of it has run
	here      phase = "here"      // it runs, is frozen, or has ended
	gone      phase = "gone"      // its epoch is kept
)

// note is what the host remembers of a session.
type note struct {
	UID   schemas.UID         `json:"uid"`
	Name  schemas.Name        `json:"name"`
	Epoch uint64              `json:"epoch"`
	Phase phase               `json:"phase"`
	PID   int                 `json:"pid,omitempty"`
	Start uint64              `json:"start,omitempty"` // of that process, in ticks since the boot
	Boot  string              `json:"boot,omitempty"`  // of the machine
	Began time.Time           `json:"began,omitzero"`
	Were  []string            `json:"were,omitempty"` // the cgroups that the tree had before
	Exit  *schemas.ExitStatus `json:"exit,omitempty"` // how it ended, once that is known
}

// notes are the notes of a host: a file each, replaced as a whole.
type notes struct {
	dir string
	mu  sync.Mutex
}

func (n *notes) path(uid schemas.UID) string { return filepath.Join(n.dir, string(uid)+".json") }

// read gives the note of a session. One that was never here has the phase gone.
func (n *notes) read(uid schemas.UID) (note, error) {
	b, err := os.ReadFile(n.path(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return note{UID: uid, Phase: gone}, nil
	}
	var got note
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil {
		return got, fmt.Errorf("read the note of session %s: %w", uid, err)
	}
	return got, nil
}

// set replaces a note, durably.
func (n *notes) set(to note) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.write(to)
}

// write is set for callers that hold mu.
func (n *notes) write(to note) error {
	b, err := json.Marshal(to)
	if err != nil {
		return fmt.Errorf("encode the note of session %s: %w", to.Name, err)
	}
	path := n.path(to.UID)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(n.dir)
	}
	if err != nil {
		return fmt.Errorf("write the note of session %s: %w", to.Name, err)
	}
	return nil
}

// pass notes the epoch of a caller, and refuses one that is lower than what was noted.
func (n *notes) pass(f driver.Fence) (note, error) {
	if !schemas.ValidToken(string(f.UID)) {
		return note{}, fmt.Errorf("session uid %q is not a token", f.UID)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	have, err := n.read(f.UID)
	switch {
	case err != nil:
		return have, err
	case f.Epoch < have.Epoch:
		return have, driver.ErrStale
	case f.Epoch == have.Epoch && have.Name == f.Name:
		return have, nil
	}
	have.Epoch, have.Name = f.Epoch, f.Name
	return have, n.write(have)
}

// ended notes how a session ended, unless it was replaced since.
func (n *notes) ended(of note, exit schemas.ExitStatus) (note, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, err := n.read(of.UID)
	if err != nil || now.Phase != here || now.PID != of.PID || now.Start != of.Start || now.Exit != nil {
		return now, err
	}
	now.Exit = &exit
	return now, n.write(now)
}

// all gives the notes of the host.
func (n *notes) all() (all []note, err error) {
	names, err := filepath.Glob(filepath.Join(n.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		got, err := n.read(schemas.UID(strings.TrimSuffix(filepath.Base(name), ".json")))
		if err != nil {
			return nil, err
		}
		all = append(all, got)
	}
	return all, nil
}

// forget removes a note.
func (n *notes) forget(uid schemas.UID) error {
	if err := os.Remove(n.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the note of session %s: %w", uid, err)
	}
	return nil
}

// noteKept is how long the note of a session that left this host is kept: as long as no worker
// acts any more on what it read before that.
const noteKept = 30 * 24 * time.Hour

// prune removes the notes of sessions that left this host long ago.
func (n *notes) prune(now time.Time) error {
	all, err := n.all()
	if err != nil {
		return err
	}
	for _, have := range all {
		if st, err := os.Stat(n.path(have.UID)); err != nil || have.Phase != gone || now.Sub(st.ModTime()) < noteKept {
			continue
		}
		if err := n.forget(have.UID); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
