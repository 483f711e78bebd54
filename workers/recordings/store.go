package recordings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Store stores all that was spilled of a session, and says where its recording is now; nil if this host
// records nothing of it. A run that can't be stored keeps no other; the error is that of the run of which more may come,
// or else of the last one.
func (s *Spool) Store(ctx context.Context, uid schemas.UID) (*End, error) {
	if s.Dir == "" {
		return nil, nil
	}
	unlock, err := s.lock(ctx, uid)
	if err != nil {
		return nil, err
	}
	defer unlock()
	runs, err := s.runs(uid)
	if err != nil {
		return nil, fmt.Errorf("store the recording of session %s: %w", uid, err)
	}
	var is outcome
	for _, dir := range runs {
		o := outcome{live: live(dir)}
		o.end, o.err = s.storeRun(ctx, dir)
		if errors.Is(o.err, errUnreadable) {
			s.setAside(dir, o)
			continue
		}
		if o.rank() >= is.rank() {
			is, o = o, is
		}
		if o.err != nil {
			s.Log.Warn("could not store the rest of a run yet", "uid", string(uid), "err", o.err)
		}
	}
	if is.err != nil {
		return nil, fmt.Errorf("store the recording of session %s: %w", uid, is.err)
	}
	return is.end, nil
}

// stored says where a session's recording is by what is stored already.
func (s *Spool) stored(uid schemas.UID) (*End, error) {
	runs, err := s.runs(uid)
	var is outcome
	for _, dir := range runs {
		r, err := readRun(dir)
		if err != nil {
			continue // Store says so
		}
		last, err := readLast(dir)
		if err != nil {
			continue
		}
		if o := (outcome{end: r.end(last), live: live(dir)}); o.rank() >= is.rank() {
			is = o
		}
	}
	return is.end, err
}

// outcome is what came of storing a run.
type outcome struct {
	end  *End
	err  error
	live bool
}

// rank is higher for a run that rather has the end of the recording. One of which nothing came, and nothing will, is an
// attempt that failed: it says only where the recording was before it.
func (o outcome) rank() int {
	switch {
	case o.live:
		return 3
	case o.err != nil, o.end != nil && o.end.stored:
		return 2
	case o.end != nil:
		return 1
	}
	return 0
}

// live reports whether more segments may come of a run.
func live(dir string) bool {
	last, err := driver.LockRun(dir, true)
	if err == nil {
		last.Close()
	}
	return errors.Is(err, driver.ErrRecorded)
}

// errUnreadable: it can't be known to what a run belongs.
var errUnreadable = errors.New("the description of the run can't be read")

// asideSuffix is that of the folder of a run that can't be read: it is no run any more, and goes with the session.
const asideSuffix = ".unreadable"

// setAside puts the folder of a run that can't be read out of the way. What a crash left before there were segments is removed.
func (s *Spool) setAside(dir string, o outcome) {
	s.Log.Error("a run of a recording can't be stored", "dir", dir, "err", o.err)
	if o.live {
		return // its shim keeps its room bounded
	}
	left, err := spilled(dir)
	if err == nil && len(left) == 0 {
		err = os.RemoveAll(dir)
	} else if err == nil {
		err = os.Rename(dir, dir+asideSuffix)
	}
	if err != nil {
		s.Log.Warn("could not put it out of the way", "dir", dir, "err", err)
	}
}

// Remove forgets what was spilled of a session that is deleted, and not stored.
func (s *Spool) Remove(ctx context.Context, uid schemas.UID) error {
	if s.Dir == "" {
		return nil
	}
	unlock, err := s.lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Join(s.Dir, string(uid))
	runs, _ := s.runs(uid) // without them a bit more is remembered
	s.mu.Lock()
	for _, run := range runs {
		delete(s.redacted, filepath.Base(run))
	}
	maps.DeleteFunc(s.rooms, func(run string, _ *recording.Room) bool { return filepath.Dir(run) == dir })
	s.mu.Unlock()
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the recording of session %s: %w", uid, err)
	}
	return nil
}

// Forget is Remove for another host that says that a session is deleted: its record has to say so, too. It doesn't wait long
// while segments are stored: Serve does it then.
func (s *Spool) Forget(ctx context.Context, uid schemas.UID) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	runs, err := s.runs(uid)
	for _, dir := range runs {
		r, readErr := readRun(dir)
		if readErr != nil {
			continue
		}
		gone, goneErr := s.gone(ctx, r)
		if goneErr == nil && !gone {
			goneErr = fmt.Errorf("forget the recording of session %s: it isn't deleted", uid)
		}
		err = cmp.Or(err, goneErr)
	}
	if err == nil {
		err = s.Remove(ctx, uid)
	}
	if err != nil && schemas.ValidToken(string(uid)) {
		s.owe(uid)
	}
	return err
}

// StoreNow is Store, but for one who can't wait for a store that is away: Serve does it then.
func (s *Spool) StoreNow(ctx context.Context, uid schemas.UID) (*End, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	end, err := s.Store(ctx, uid)
	if err != nil && schemas.ValidToken(string(uid)) {
		s.owe(uid)
	}
	return end, err
}

// lock waits until nothing else is done with a session's folder. A uid that isn't the name of one is refused: it comes from
// messages, too.
func (s *Spool) lock(ctx context.Context, uid schemas.UID) (unlock func(), err error) {
	if !schemas.ValidToken(string(uid)) {
		return nil, fmt.Errorf("look for a recording: %.40q is no identity of a session", string(uid))
	}
	h := fnv.New32a()
	h.Write([]byte(uid))
	of := s.locks[h.Sum32()%uint32(len(s.locks))]
	select {
	case of <- struct{}{}:
		return func() { <-of }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the recording of session %s: %w", uid, context.Cause(ctx))
	}
}

// runs lists the folders of a session's runs, the oldest first.
func (s *Spool) runs(uid schemas.UID) (dirs []string, err error) {
	if s.Dir == "" || !schemas.ValidToken(string(uid)) {
		return nil, nil
	}
	all, err := os.ReadDir(filepath.Join(s.Dir, string(uid)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range all {
		if _, _, ok := recording.SplitRun(e.Name()); ok {
			dirs = append(dirs, filepath.Join(s.Dir, string(uid), e.Name()))
		}
	}
	return dirs, err
}
