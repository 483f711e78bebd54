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

// claims reports whether a container belongs to the session. One that replaces another is
// created before its id is noted.
func (n note) claims(id string, labels map[string]string) bool {
	return n.Phase != gone && (n.Container == id || n.Old == id) || n.Phase == making && labels[labelFor] == string(n.UID)
}

// phase is the state of a session on this host.
type phase string

const (
	gone   phase = ""       // only the epoch is known here
	making phase = "making" // being started or restored: nothing has run
	here   phase = "here"   // it runs or may have run
	frozen phase = "frozen" // paused by the driver
	held   phase = "held"   // its container is kept, stopped: it was suspended, or ended by itself
)

// note is what a host remembers of a session after a crash. It holds no secret.
type note struct {
	UID        schemas.UID  `json:"uid"`
	Name       schemas.Name `json:"name"`
	Epoch      uint64       `json:"epoch"`
	Phase      phase        `json:"phase,omitempty"`
	Container  string       `json:"container,omitempty"` // its id, noted before anything in it runs
	Adopted    bool         `json:"adopted,omitempty"`   // it existed before the session
	Remove     bool         `json:"remove,omitempty"`    // an adopted container is removed when it is suspended
	Paused     bool         `json:"paused,omitempty"`    // by someone else, before the driver paused it
	Binds      bool         `json:"binds,omitempty"`     // the contents of bind mounts are captured
	Shared     bool         `json:"shared,omitempty"`    // volumes that others use are replaced, too
	Began      time.Time    `json:"began,omitzero"`      // when this host started or restored it
	Old        string       `json:"old,omitempty"`       // the held container that this one replaces
	Moved      string       `json:"moved,omitempty"`     // the name of the held container, which has another one meanwhile
	Backups    []backup.Dir `json:"asides,omitempty"`    // of what volumes held, until the new container has started
	Image      string       `json:"image,omitempty"`     // made on this host for the session
	Volumes    []string     `json:"volumes,omitempty"`   // created for the restore of an adopted container, until that has started
	Networks   []string     `json:"networks,omitempty"`  // likewise
	Restart    *restart     `json:"restart,omitempty"`   // the policy of a held container, which has none meanwhile
	Ending     bool         `json:"ending,omitempty"`    // the driver is removing its container
	Kept       bool         `json:"kept,omitempty"`      // others removed its container: its volumes and networks stay until something has run on them
	Anonymous  []string     `json:"nameless,omitempty"`  // anonymous volumes of its containers, which may outlive them
	NotRunning *notRunning  `json:"still,omitempty"`     // set if its container exists and doesn't run
}

// restart is a container's restart policy.
type restart struct {
	Name  string `json:"name"`
	Tries int    `json:"tries,omitempty"`
}

// notes are the notes of all sessions of a host, one file each.
type notes struct {
	dir  string
	kept chan struct{} // has one after a container was noted to be held
	mu   sync.Mutex
}

func (n *notes) file(uid schemas.UID) string { return filepath.Join(n.dir, string(uid)+".json") }

func (n *notes) read(uid schemas.UID) (note, error) {
	if !schemas.ValidToken(string(uid)) {
		return note{}, fmt.Errorf("session uid %q: want 1 to 64 of A-Za-z0-9_-", uid)
	}
	data, err := os.ReadFile(n.file(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return note{UID: uid}, nil
	}
	if err != nil {
		return note{}, fmt.Errorf("read the note of session %s: %w", uid, err)
	}
	var out note
	if err := json.Unmarshal(data, &out); err != nil {
		return note{}, fmt.Errorf("decode the note of session %s in %s: %w", uid, n.file(uid), err)
	}
	return out, nil
}

// pass notes the epoch of a fence and gives the session's note. It fails if a higher epoch was
// noted.
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

// write stores a note durably. Its epoch only grows.
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
		return fmt.Errorf("write the note of session %s: %w", w.UID, err)
	}
	if w.Phase == held {
		select {
		case n.kept <- struct{}{}:
		default: // that of another one hasn't been heard yet
		}
	}
	return nil
}

// all gives the notes of all sessions.
func (n *notes) all() ([]note, error) {
	files, err := filepath.Glob(filepath.Join(n.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the notes of sessions: %w", err)
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

// forget removes the note of a session that was deleted: no call for it comes any more.
func (n *notes) forget(uid schemas.UID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := os.Remove(n.file(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the note of a deleted session: %w", err)
	}
	return nil
}

// epochKept is how long the note of a session that is on another host is kept. It is there for a worker
// that acts on what it read before the session went there, and none does so for that long.
const epochKept = 30 * 24 * time.Hour

// prune removes the notes of sessions that left this host long ago.
func (n *notes) prune(now time.Time) error {
	all, err := n.all()
	if err != nil {
		return err
	}
	for _, w := range all {
		info, err := os.Stat(n.file(w.UID))
		if err != nil || w.Phase != gone || now.Sub(info.ModTime()) < epochKept {
			continue
		}
		if err := n.forget(w.UID); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile replaces a file at once: after a crash it is the old one or the new one.
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

// keeping gives the note of a session of which only the volumes and networks are left. An image
// of the container's file system isn't kept.
func (n note) keeping(was note) note {
	if n.Phase, n.Kept = held, true; !strings.HasPrefix(was.Image, imagePrefix) {
		n.Image = was.Image
	}
	n.Anonymous = was.Anonymous
	return n
}
