package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// reserve is a file beside the streams that takes place on the disk: when others have filled that, the
// streams are given the place.
type reserve struct {
	path string
	look func() (size, free int64, err error) // of the disk, in bytes
}

// The size of the reserve, in bytes: one part in so many of a small disk.
const (
	reservedMost  = 16 << 20
	reservedShare = 25
)

// keep makes the reserve, unless it is there, or the disk has no room for it and as much again.
func (r reserve) keep() error {
	if _, err := os.Stat(r.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	size, free, err := r.look()
	if err != nil {
		return err
	}
	want := min(reservedMost, size/reservedShare)
	if free < 2*want {
		return nil
	}
	part := r.path + ".part" // a crash leaves no file that has less
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("reserve room on the disk: %w", err)
	}
	err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, want), f.Close())
	if err == nil {
		err = os.Rename(part, r.path)
	}
	if err != nil {
		return fmt.Errorf("reserve room on the disk: %w", errors.Join(err, os.Remove(part)))
	}
	return nil
}

// release gives the place up, and reports whether there was one.
func (r reserve) release() bool { return os.Remove(r.path) == nil }

// errRestarting is what a connection is refused with meanwhile.
var errRestarting = errors.New("the NATS server is being started again")

// InProcessConn implements nats.InProcessConnProvider: the server may be another one at each call.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.nats == nil {
		return nil, errRestarting
	}
	return s.nats.InProcessConn()
}

// replace takes the server that runs away from those who connect, and gives them another.
func (s *Server) replace(with *server.Server) (before *server.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.nats = s.nats, with
	return before
}

// revive waits until no stream takes a write, since the disk is full, and then gives them what is
// reserved: as often as there is a reserve. Then it delivers the error to Broken.
func (s *Server) revive(ctx context.Context, o Options) {
	for {
		select {
		case err := <-s.log.broken:
			if !s.reserve.release() {
				s.broken <- err
				return
			}
			o.Log.Warn("the disk is full: what was reserved for records is used now, and the NATS server starts again; make room", "err", err)
			if err := s.restart(ctx, o); err != nil {
				s.broken <- fmt.Errorf("%w: %w", ErrFull, err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// restart stops the server and starts another on the same files. Those who are connected connect again.
func (s *Server) restart(ctx context.Context, o Options) error {
	stop(s.replace(nil))
	select {
	case <-s.log.broken: // of the one before
	default:
	}
	ns, err := s.launch(ctx, o)
	if err != nil {
		return err
	}
	s.replace(ns)
	return nil
}

// stop returns when the server's files are closed.
func stop(ns *server.Server) {
	if ns != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
	}
}

func newReserve(storeDir string) reserve {
	return reserve{path: filepath.Join(storeDir, "reserve"), look: func() (int64, int64, error) { return diskOf(storeDir) }}
}
