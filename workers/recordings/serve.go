package recordings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// storeAgain is how long after a failure it is tried again to store what was spilled, and storeLate after many. storeWait bounds
// that for one session, so that the others come, too. lookEvery is how often all is looked at.
const (
	storeAgain = 5 * time.Second
	storeLate  = time.Minute
	storeWait  = 2 * time.Minute
	lookEvery  = 5 * time.Minute
)

// Serve stores what shims spill until ctx ends. It does nothing while they spill nothing.
func (s *Spool) Serve(ctx context.Context) error {
	if s.Dir == "" {
		<-ctx.Done()
		return nil
	}
	notices, err := s.listen()
	if err != nil {
		return fmt.Errorf("hear of recordings: %w", err)
	}
	var g errgroup.Group
	g.Go(func() error {
		s.hear(notices)
		return nil
	})
	g.Go(func() error {
		s.storeAll(ctx)
		return notices.Close()
	})
	return g.Wait()
}

// listen opens the socket on which shims say that they spilled something.
func (s *Spool) listen() (*net.UnixConn, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.Open(s.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := os.Remove(filepath.Join(s.Dir, driver.NoticeSocket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// By its directory the name is short, however long that of the directory is.
	name := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), driver.NoticeSocket)
	return net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
}

func (s *Spool) hear(notices *net.UnixConn) {
	b := make([]byte, 256)
	for {
		n, err := notices.Read(b)
		if err != nil {
			return // closed
		}
		if uid := string(b[:n]); schemas.ValidToken(uid) {
			s.owe(schemas.UID(uid))
		}
	}
}

// Tidy has the folders of a session's runs removed that are over, once Serve has stored what is in them.
func (s *Spool) Tidy(uid schemas.UID) {
	if s.Dir != "" {
		s.owe(uid)
	}
}

// owe has what was spilled of a session stored.
func (s *Spool) owe(uid schemas.UID) {
	s.mu.Lock()
	s.due[uid] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// storeAll stores what there is, and whenever there is more. Now and then it looks at all, for what it wasn't told of and for
// folders of runs that are over.
func (s *Spool) storeAll(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	s.oweAll()
	var wait time.Duration
	for {
		var again <-chan time.Time
		failed, err := s.sweep(ctx)
		wait = min(max(2*wait, storeAgain), storeLate)
		if failed == 0 {
			wait = 0
		} else if ctx.Err() == nil {
			s.Log.Warn("could not store recordings, and tries again", "sessions", failed, "after", wait.String(), "err", err)
			again = time.After(wait)
		}
		select {
		case <-s.wake:
		case <-again:
		case <-look.C:
			s.oweAll()
		case <-ctx.Done():
			return
		}
	}
}

// oweAll has what was spilled of all sessions stored.
func (s *Spool) oweAll() {
	all, err := os.ReadDir(s.Dir)
	if err != nil {
		s.Log.Warn("could not look for recordings", "err", err)
	}
	for _, e := range all {
		if e.IsDir() {
			s.owe(schemas.UID(e.Name()))
		}
	}
}

// sweep stores what was spilled of the sessions that are due, and removes the folders of runs that are over. What fails for one
// session doesn't keep the others; it is due again. It says for how many that was so, and why for the first.
func (s *Spool) sweep(ctx context.Context) (failed int, first error) {
	s.mu.Lock()
	due := s.due
	s.due = map[schemas.UID]bool{}
	s.mu.Unlock()
	for uid := range due {
		if err := s.sweepSession(ctx, uid); err != nil {
			failed, first = failed+1, cmp.Or(first, err)
			s.mu.Lock()
			s.due[uid] = true
			s.mu.Unlock()
		}
	}
	return failed, first
}

func (s *Spool) sweepSession(ctx context.Context, uid schemas.UID) error {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	if err := s.Imports.settle(ctx, uid); err != nil {
		return err
	}
	runs, err := s.runs(uid)
	if err != nil || len(runs) == 0 {
		return err
	}
	gone, err := s.deleted(ctx, runs)
	switch {
	case errors.Is(err, statekv.ErrNoSession):
		return s.unknown(ctx, uid, runs)
	case err != nil:
		return fmt.Errorf("look whether session %s is still there: %w", uid, err)
	case gone:
		return s.Remove(ctx, uid)
	}
	if _, err := s.Store(ctx, uid); err != nil {
		return err
	}
	if err := (late{s}).stored(ctx, runs); err != nil {
		return err
	}
	unlock, err := s.lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	for _, dir := range runs {
		err = errors.Join(err, over(dir))
		if _, statErr := os.Stat(dir); errors.Is(statErr, fs.ErrNotExist) {
			s.mu.Lock()
			delete(s.redacted, filepath.Base(dir))
			s.mu.Unlock()
		}
	}
	return err
}

// unknownKept is how long what waits of a session without a record is kept: the record may come back with a backup.
const unknownKept = 7 * 24 * time.Hour

// unknown removes what waits of a session that has no record, if nothing came of it for long: it was deleted while this host was
// away. Till then its key stays away from the store.
func (s *Spool) unknown(ctx context.Context, uid schemas.UID, runs []string) error {
	for _, dir := range runs {
		info, err := os.Stat(dir) // changes with each segment
		if live(dir) || err == nil && time.Since(info.ModTime()) < unknownKept {
			return nil
		}
	}
	s.Log.Warn("removes what was recorded of a session without a record", "uid", string(uid))
	return s.Remove(ctx, uid)
}

// deleted reports whether a session of which something was spilled isn't there any more: its keys are gone, and must not
// come back. A session is asked about only if there is something to store.
func (s *Spool) deleted(ctx context.Context, runs []string) (bool, error) {
	for _, dir := range runs {
		if left, err := spilled(dir); err != nil || len(left) == 0 {
			continue
		}
		if r, err := readRun(dir); err == nil { // else Store puts it away
			return s.gone(ctx, r)
		}
	}
	return false, nil
}

// gone reports whether the session of a run is deleted.
func (s *Spool) gone(ctx context.Context, r run) (bool, error) {
	rec, err := s.Records.Get(ctx, schemas.Name{Tenant: r.Tenant, Session: r.Session})
	if err != nil {
		return false, err
	}
	return rec.UID != r.UID || rec.State == schemas.Deleted, nil
}
