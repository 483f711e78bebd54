package docker

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
	"github.com/diapause/diapause/workers/docker/backup"
	"github.com/diapause/diapause/workers/driver"
)

// claims reports whether a container is the session's. One that replaces another is made
// before it is noted which one it is.
func (n note) claims(id string, labels map[string]string) bool {
	return n.Phase != gone && (n.Container == id || n.Old == id) || n.Phase == making && labels[labelFor] == string(n.UID)
}

// phase is how far a session has come on this host.
type phase string

const (
	gone   phase = ""       // nothing is here, but for the epoch
	making phase = "making" // being started or restored: nothing has run
	here   phase = "here"   // it runs, or may have run
	frozen phase = "frozen" // paused by us
	held   phase = "held"   // the container is kept, stopped: its image replaces it, or it ended by itself
)

// note is what a host remembers of a session, over crashes. It holds no secret.
type note struct {
	UID        schemas.UID  `json:"uid"`
	Name       schemas.Name `json:"name"`
	Epoch      uint64       `json:"epoch"`
	Phase      phase        `json:"phase,omitempty"`
	Container  string       `json:"container,omitempty"` // its id, known before anything in it runs
	Adopted    bool         `json:"adopted,omitempty"`   // it was there before the session
	Remove     bool         `json:"remove,omitempty"`    // all the same, suspending removes it
	Paused     bool         `json:"paused,omitempty"`    // by somebody else, before we did
	Binds      bool         `json:"binds,omitempty"`     // their contents are captured
	Shared     bool         `json:"shared,omitempty"`    // volumes of others, too, are replaced
	Began      time.Time    `json:"began,omitzero"`      // when this host started or restored it
	Old        string       `json:"old,omitempty"`       // the held container that this one replaces
	Moved      string       `json:"moved,omitempty"`     // what the held container was called, which has another name meanwhile
	Backups    []backup.Dir `json:"asides,omitempty"`    // what was in volumes, until the container that they are filled for has begun
	Image      string       `json:"image,omitempty"`     // made on this host for the session alone
	Volumes    []string     `json:"volumes,omitempty"`   // made while an adopted one is restored: they are nobody's before
	Networks   []string     `json:"networks,omitempty"`  // likewise
	Restart    *restart     `json:"restart,omitempty"`   // the policy of a held container, which is set aside
	Ending     bool         `json:"ending,omitempty"`    // by us: its container is being removed
	Kept       bool         `json:"kept,omitempty"`      // what was made for it and outlived its container, which others removed, stays until something has run on it
	Anonymous  []string     `json:"nameless,omitempty"`  // volumes that its containers had for themselves, which may outlive those
	NotRunning *notRunning  `json:"still,omitempty"`     // it is here without running
}

// restart is when the engine starts a container by itself.
type restart struct {
	Name  string `json:"name"`
	Tries int    `json:"tries,omitempty"`
}

// notes are the notes of all sessions of a host, one file each.
type notes struct {
	dir string
	mu  sync.Mutex
}

func (n *notes) file(uid schemas.UID) string { return filepath.Join(n.dir, string(uid)+".json") }

func (n *notes) read(uid schemas.UID) (note, error) {
	if !schemas.ValidToken(string(uid)) {
		return note{}, fmt.Errorf("session uid %q must be 1 to 64 of A-Z a-z 0-9 _ -", uid)
	}
	data, err := os.ReadFile(n.file(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return note{UID: uid}, nil
	}
	if err != nil {
		return note{}, fmt.Errorf("read what is known of session %s: %w", uid, err)
	}
	var out note
	if err := json.Unmarshal(data, &out); err != nil {
		return note{}, fmt.Errorf("what is known of session %s, in %s, is damaged: %w", uid, n.file(uid), err)
	}
	return out, nil
}

// pass notes the epoch, refuses one that is lower than what was noted, and gives what is
// known of the session.
func (n *notes) pass(f driver.Fence) (note, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	have, err := n.read(f.UID)
	if err != nil {
		return have, err
	}
	if f.Epoch < have.Epoch {
		return have, fmt.Errorf("session %s, epoch %d: %w", f.Name, f.Epoch, driver.ErrStale)
	}
	if f.Epoch > have.Epoch {
		have.Epoch, have.Name = f.Epoch, f.Name
		return have, n.put(have)
	}
	return have, nil
}

// write notes something, durably. The epoch only grows.
func (n *notes) write(w note) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	have, err := n.read(w.UID)
	if err != nil {
		return err
	}
	w.Epoch = max(w.Epoch, have.Epoch)
	return n.put(w)
}

func (n *notes) put(w note) error {
	data, err := json.Marshal(w)
	if err == nil {
		err = replaceFile(n.file(w.UID), data)
	}
	if err != nil {
		return fmt.Errorf("note what is known of session %s: %w", w.UID, err)
	}
	return nil
}

// all gives what is known of every session.
func (n *notes) all() ([]note, error) {
	files, err := filepath.Glob(filepath.Join(n.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list what is known of sessions: %w", err)
	}
	var out []note
	for _, f := range files {
		w, err := n.read(schemas.UID(strings.TrimSuffix(filepath.Base(f), ".json")))
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// replaceFile writes a file so that it is there whole, or as it was.
func replaceFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// keeping is a note of what outlived a container. An image of its own file system goes with it.
func (n note) keeping(was note) note {
	if n.Phase, n.Kept = held, true; !strings.HasPrefix(was.Image, imagePrefix) {
		n.Image = was.Image
	}
	n.Anonymous = was.Anonymous
	return n
}
