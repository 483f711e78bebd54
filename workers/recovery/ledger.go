package recovery

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
)

// deletedFor is how long the ledger remembers that a session was deleted: a backup
// that is older brings it back.
const deletedFor = 60 * 24 * time.Hour

// Mark is how far the log of all sessions was when a host saw it last.
type Mark struct {
	Created time.Time `json:"created"` // when the log was made: another time is another log
	Seq     uint64    `json:"seq"`     // its last entry
	// ID is of that entry's transition: another one is another entry. Empty if it isn't known.
	ID string `json:"id,omitempty"`
}

// Ledger keeps, over restarts, the newest record that one host saw of each of its sessions. It
// is evidence beside the log. A write isn't synced: a power failure may cost the last moments,
// never older records. The specs in it are sealed, as in the log. It is safe for concurrent
// use.
type Ledger struct {
	dir  string
	host schemas.HostID

	mu      sync.Mutex
	records map[schemas.Name]schemas.SessionRecord
	mark    Mark
}

// Open reads the ledger in a directory, which is made if it isn't there. What a
// crash left unreadable is removed, and given by name.
func Open(dir string, host schemas.HostID) (l *Ledger, damaged []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the ledger of host %s: %w", host, err)
	}
	l = &Ledger{dir: dir, host: host, records: map[schemas.Name]schemas.SessionRecord{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read the ledger of host %s: %w", host, err)
	}
	for _, f := range files {
		ok, err := l.read(f.Name())
		if err != nil {
			return nil, nil, fmt.Errorf("read the ledger of host %s: %w", host, err)
		}
		if !ok {
			damaged = append(damaged, f.Name())
		}
	}
	return l, damaged, nil
}

const (
	markFile = "mark.json"
	suffix   = ".record.json"
)

// read takes in one file; ok is false if it is damaged, and gone now.
func (l *Ledger) read(file string) (ok bool, err error) {
	path := filepath.Join(l.dir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	if file == markFile {
		if json.Unmarshal(data, &l.mark) == nil {
			return true, nil
		}
		l.mark = Mark{}
		return false, os.Remove(path)
	}
	var r schemas.SessionRecord
	if !strings.HasSuffix(file, suffix) || json.Unmarshal(data, &r) != nil || r.Name().Key()+suffix != file {
		return false, os.Remove(path)
	}
	if r.State == schemas.Deleted && r.Op == nil && time.Since(r.Since) > deletedFor {
		return true, os.Remove(path)
	}
	l.records[r.Name()] = r
	return true, nil
}

// Keep remembers a record if it is this host's, or was, and newer than what is
// remembered.
func (l *Ledger) Keep(r schemas.SessionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, known := l.records[r.Name()]
	again := known && followed(have, r)
	if (!known || again) && r.Host != l.host || known && !again && !Newer(r, have) {
		return nil
	}
	r.Transition = schemas.Transition{} // the log has it
	if err := l.write(r.Name().Key()+suffix, r); err != nil {
		return fmt.Errorf("remember the record of session %s: %w", r.Name(), err)
	}
	l.records[r.Name()] = r
	return nil
}

// Reach remembers how far the log is.
func (l *Ledger) Reach(m Mark) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m == l.mark {
		return nil
	}
	if err := l.write(markFile, m); err != nil {
		return fmt.Errorf("remember how far the log of sessions is: %w", err)
	}
	l.mark = m
	return nil
}

// Mark is how far the log was; zero if that was never noted.
func (l *Ledger) Mark() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mark
}

// Records gives all that is remembered.
func (l *Ledger) Records() map[schemas.Name]schemas.SessionRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[schemas.Name]schemas.SessionRecord, len(l.records))
	for n, r := range l.records {
		out[n] = r
	}
	return out
}

func (l *Ledger) write(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	path := filepath.Join(l.dir, file)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return errors.Join(err, removeIfThere(path+".new"))
	}
	return os.Rename(path+".new", path)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Newer reports whether a is a later record of the session than b. The epoch counts
// first: it alone goes on over a recovery, the version follows the log.
func Newer(a, b schemas.SessionRecord) bool {
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Version > b.Version
}

// over reports whether a session is removed, with nothing left to do. All of it leaves the log
// after a while.
func over(r schemas.SessionRecord) bool { return r.State == schemas.Deleted && r.Op == nil }

// followed reports whether b is of a session that was made after a, of the same name, was
// removed. If a had left the log by then, b's epochs began with 1 again.
func followed(a, b schemas.SessionRecord) bool {
	return over(a) && a.UID != b.UID && b.Created.After(a.Since)
}
