package recordings

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/asciicast"
	"github.com/diapause/diapause/workers/driver"
)

// An import takes in a recording that was made elsewhere: Take seals it in a folder that is no run's yet, the API makes a session
// of it, and Keep makes the folder that of a run of the session, which is stored as any other. What becomes no session is removed: by
// Drop, or by Serve after a crash.

// importSuffix is that of the folder of a recording that is taken in, and belongs to no session yet.
const importSuffix = ".import"

// importsAtOnce bounds how many recordings are taken in at a time. importKept is how long one stays that the API has asked for and no session was
// made of: its record may be on the way.
const (
	importsAtOnce = 2
	importKept    = 10 * time.Minute
)

// Imports takes in recordings that were made elsewhere, for the Spool that stores them. Its methods may be called concurrently.
type Imports struct {
	spool *Spool
	slots chan struct{} // has one for each recording that is taken in

	mu  sync.Mutex
	all map[schemas.UID]*Import // taken in, and neither kept nor dropped
}

func newImports(s *Spool) *Imports {
	return &Imports{spool: s, slots: make(chan struct{}, importsAtOnce), all: map[schemas.UID]*Import{}}
}

// Import is a recording that was taken in.
type Import struct {
	schemas.Imported
	of    *Imports
	rec   schemas.SessionRecord // as far as it is known: whose it is
	dir   string
	lock  *os.File
	last  *backlog.Log // what was printed last
	done  func()
	asked bool // by the API; callers hold the mu of Imports
}

// Take takes in the asciicast that r gives, for a session of a name, as of a driver, that is made of it.
func (m *Imports) Take(ctx context.Context, n schemas.Name, of schemas.DriverName, r io.Reader) (*Import, error) {
	if m.spool.Dir == "" {
		return nil, fmt.Errorf("import a recording: host %s records nothing", m.spool.Host)
	}
	select {
	case m.slots <- struct{}{}:
	default:
		return nil, fmt.Errorf("import a recording: host %s is taking in %d", m.spool.Host, importsAtOnce)
	}
	done := func() { <-m.slots }
	cast, err := asciicast.NewReader(r)
	if err != nil {
		done()
		return nil, refusedCast(err)
	}
	uid := schemas.UID(strings.ToLower(rand.Text()[:22]))
	i := &Import{of: m, done: done, last: backlog.New(attach.OutputKept), rec: schemas.SessionRecord{
		Tenant: n.Tenant, Session: n.Session, UID: uid, Lineage: string(uid), Epoch: 1, State: schemas.Exited,
	}}
	i.Name, i.UID, i.Driver, i.Title = n.String(), uid, of, schemas.Shown(cast.Header().Title)
	if err := i.take(ctx, cast); err != nil {
		i.remove()
		return nil, refusedCast(err)
	}
	m.mu.Lock()
	m.all[uid] = i
	m.mu.Unlock()
	return i, nil
}

// refusedCast says of a file that isn't an asciicast that it isn't.
func refusedCast(err error) error {
	var wrong *asciicast.Error
	if errors.As(err, &wrong) {
		return &driver.Error{Kind: driver.Refused, Text: "import a recording: " + wrong.Error(), Hint: "an asciicast of version 2 or 3 can be imported"}
	}
	return fmt.Errorf("import a recording: %w", err)
}

// take seals a recording in a folder of its own.
func (i *Import) take(ctx context.Context, cast *asciicast.Reader) error {
	run, err := i.of.spool.newRun(ctx, i.rec, nil)
	if err != nil {
		return err
	}
	key, err := run.Key.Public()
	if err != nil {
		return err
	}
	if err := i.begin(ctx, run); err != nil {
		return err
	}
	t := newTaking(i.dir, key, cast.Header(), time.Now())
	err = t.all(ctx, cast, func(data []byte) { i.last.Append(backlog.Out, data) })
	if err == nil {
		err = syncFolders(i.dir)
	}
	if err != nil {
		t.discard()
		return err
	}
	i.Began, i.Ended, i.Exit, i.Output, i.Commands = t.began, t.last, t.exit, t.at, t.commands
	return nil
}

// begin makes the folder. Nothing else is done with it meanwhile.
func (i *Import) begin(ctx context.Context, r run) error {
	unlock, err := i.of.spool.lock(ctx, i.UID)
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Join(i.of.spool.Dir, string(i.UID), r.Run+importSuffix)
	if i.lock, err = r.write(dir); err != nil {
		return err
	}
	i.dir = dir
	return nil
}

// syncFolders makes a folder durable, and those that it is in.
func syncFolders(dir string) error {
	for range 3 {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

// Asked says for the API what was taken in under a uid; nothing is known of another one.
func (m *Imports) Asked(uid schemas.UID) schemas.Imported {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.all[uid]
	if i == nil {
		return schemas.Imported{}
	}
	i.asked = true
	return i.Imported
}

// forgotten takes the import from those that the API may ask for, and reports whether it did.
func (i *Import) forgotten() (asked bool) {
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	delete(i.of.all, i.UID)
	return i.asked
}

// errNoSessionMade: no session was made of what was imported.
var errNoSessionMade = errors.New("no session was made of it")

// Says is what is said of it.
func (i *Import) Says() schemas.Imported { return i.Imported }

// Keep has a recording be that of the session that was made of it, and stores it. If that has to wait, Serve does it.
func (i *Import) Keep(ctx context.Context) error {
	s := i.of.spool
	made, err := i.of.made(ctx, i.rec)
	if err == nil && !made {
		err = errNoSessionMade
	}
	if err != nil {
		return fmt.Errorf("keep what was imported: %w", err)
	}
	if err := s.Snapshots.SaveOutput(ctx, i.rec, i.last.Encode()); err != nil {
		s.Log.Warn("could not keep what an imported session printed last", i.rec.Logged("err", err)...)
	}
	i.forgotten()
	if err := i.of.adopt(ctx, i.UID, i.dir, i.lock); err != nil {
		return fmt.Errorf("keep what was imported: %w", err)
	}
	i.lock = nil
	if _, err := s.StoreNow(ctx, i.UID); err != nil {
		s.Log.Warn("could not store an imported recording yet", i.rec.Logged("err", err)...)
	}
	s.Tidy(i.UID)
	return nil
}

// adopt makes the folder of an import that of a run.
func (m *Imports) adopt(ctx context.Context, uid schemas.UID, dir string, lock *os.File) error {
	unlock, err := m.spool.lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Rename(dir, strings.TrimSuffix(dir, importSuffix)); err != nil {
		return err
	}
	return errors.Join(syncFolders(filepath.Dir(dir)), lock.Close())
}

// made reports whether a session was made of an import.
func (m *Imports) made(ctx context.Context, r schemas.SessionRecord) (bool, error) {
	rec, err := m.spool.Records.Get(ctx, r.Name())
	if errors.Is(err, statekv.ErrNoSession) {
		return false, nil
	}
	return err == nil && rec.UID == r.UID && rec.State != schemas.Deleted, err
}

// Close removes what isn't kept. Of what the API has asked for Serve finds out what became of it.
func (i *Import) Close() {
	if i.forgotten() {
		if i.lock != nil {
			i.lock.Close()
		}
		i.done()
		i.of.spool.owe(i.UID)
		return
	}
	i.remove()
}

// remove removes the folder, if it is an import's.
func (i *Import) remove() {
	if i.lock != nil {
		if err := os.RemoveAll(i.dir); err != nil {
			i.of.spool.Log.Warn("could not remove what isn't imported", "dir", i.dir, "err", err)
		}
		_ = os.Remove(filepath.Dir(i.dir)) // nothing else is in it
		i.lock.Close()
	}
	i.done()
}

// settle makes of the folders of imports that are over what they are to be: a run's, or nothing.
func (m *Imports) settle(ctx context.Context, uid schemas.UID) error {
	all, err := os.ReadDir(filepath.Join(m.spool.Dir, string(uid)))
	if err != nil {
		return nil // it isn't there
	}
	for _, e := range all {
		if !strings.Contains(e.Name(), importSuffix) {
			continue
		}
		err = errors.Join(err, m.settleOne(ctx, uid, filepath.Join(m.spool.Dir, string(uid), e.Name())))
	}
	return err
}

func (m *Imports) settleOne(ctx context.Context, uid schemas.UID, dir string) error {
	drop := func() error {
		unlock, err := m.spool.lock(ctx, uid)
		if err != nil {
			return err
		}
		defer unlock()
		m.spool.Log.Info("removes a recording that wasn't imported to its end", "uid", string(uid))
		err = os.RemoveAll(dir)
		_ = os.Remove(filepath.Dir(dir)) // if it was the last one
		return err
	}
	if !strings.HasSuffix(dir, importSuffix) {
		return drop() // a crash came before it began
	}
	lock, err := driver.LockRun(dir, true)
	if errors.Is(err, driver.ErrRecorded) {
		return nil // it is under way
	}
	if err != nil {
		return err
	}
	r, err := readRun(dir)
	if err != nil {
		return errors.Join(drop(), lock.Close())
	}
	made, err := m.made(ctx, schemas.SessionRecord{Tenant: r.Tenant, Session: r.Session, UID: uid})
	switch info, statErr := os.Stat(dir); {
	case err != nil:
	case made:
		return m.adopt(ctx, uid, dir, lock)
	case statErr == nil && time.Since(info.ModTime()) > importKept:
		err = drop()
	}
	return errors.Join(err, lock.Close())
}
