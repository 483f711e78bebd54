package recordings

import (
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

// storeAgain is how long after a failure it is tried again to store what was spilled, lookEvery how often all is looked at.
const (
	storeAgain = 5 * time.Second
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
	for {
		var again <-chan time.Time
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("could not store recordings, and tries again", "err", err)
			again = time.After(storeAgain)
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
// session doesn't keep the others; it is due again.
func (s *Spool) sweep(ctx context.Context) error {
	s.mu.Lock()
	due := s.due
	s.due = map[schemas.UID]bool{}
	s.mu.Unlock()
	var errs []error
	for uid := range due {
		if err := s.sweepSession(ctx, uid); err != nil {
			errs = append(errs, err)
			s.mu.Lock()
			s.due[uid] = true
			s.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

func (s *Spool) sweepSession(ctx context.Context, uid schemas.UID) error {
	runs, err := s.runs(uid)
	if err != nil || len(runs) == 0 {
		return err
	}
	gone, err := s.deleted(ctx, uid, runs)
	switch {
	case errors.Is(err, statekv.ErrNoSession):
		return nil // its record may come back; till then its key stays away from the store
	case err != nil:
		return err
	case gone:
		return s.Remove(ctx, uid)
	}
	if _, err := s.Store(ctx, uid); err != nil {
		return err
	}
	unlock, err := s.lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	for _, dir := range runs {
		err = errors.Join(err, over(dir))
	}
	return err
}

// deleted reports whether a session of which something was spilled isn't there any more: its keys are gone, and must not
// come back. A session is asked about only if there is something to store.
func (s *Spool) deleted(ctx context.Context, uid schemas.UID, runs []string) (bool, error) {
	for _, dir := range runs {
		if left, err := spilled(dir); err != nil || len(left) == 0 {
			continue
		}
		r, err := readRun(dir)
		if err != nil {
			return false, err
		}
		rec, err := s.Records.Get(ctx, schemas.Name{Tenant: r.Tenant, Session: r.Session})
		if err != nil {
			return false, fmt.Errorf("look whether session %s is still there: %w", uid, err)
		}
		return rec.UID != uid || rec.State == schemas.Deleted, nil
	}
	return false, nil
}
