package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/workers/shim/control"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
	"github.com/diapause/diapause/workers/shim/criu/streamer"
)

// Large reports whether an image of criu's may be as large as the session: its
// pipe goes to the worker, and nothing of it is held here. The others are small,
// and are files in scratch memory in either way. criu never has two of the large
// ones open at a time.
func Large(name string) bool {
	for _, prefix := range []string{"pages-", "ghost-file-", "tmpfs-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// smallLimit bounds what one dump's small images take, in bytes.
const smallLimit = 256 << 20

// images is the shim's end of one criu's stream, in either direction.
type images struct {
	dir    string
	worker *control.Conn
	served []string // of a restore: what the worker has
	ahead  int64    // of a dump: what may wait with the worker, in bytes
	points *points
	large  *largeImages // of a dump that is rehearsed

	passed atomic.Int64 // pipes that went to the worker
	left   atomic.Int64 // of smallLimit
	small  sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

func newImages(dir string, worker *control.Conn) *images {
	i := &images{dir: dir, worker: worker}
	i.left.Store(smallLimit)
	return i
}

// Has implements streamer.Images.
func (i *images) Has(name string) bool {
	if Large(name) {
		return slices.Contains(i.served, name)
	}
	st, err := os.Lstat(filepath.Join(i.dir, name))
	return err == nil && st.Mode().IsRegular()
}

// pass gives a pipe to the worker.
func (i *images) pass(name string, end *os.File) error {
	defer end.Close()
	i.passed.Add(1)
	if err := i.worker.Send(Message{Phase: PhasePages, Name: name, Room: i.ahead}, end); err != nil {
		return fmt.Errorf("the worker is gone: %w", err)
	}
	return nil
}

func (i *images) failed(name string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.errs = append(i.errs, fmt.Errorf("stream %s: %w", name, err))
}

func (i *images) err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return errors.Join(i.errs...)
}

// captured are the images of a dump.
type captured struct{ *images }

// Pipe implements streamer.Images.
func (c captured) Pipe(name string, end *os.File) error {
	if Large(name) {
		if err := c.points.at(failpoint.ShimDumping); err != nil {
			end.Close()
			return err
		}
		if c.large != nil {
			var err error
			if end, err = c.large.through(name, end); err != nil {
				return err
			}
		}
		return c.pass(name, end)
	}
	f, err := os.OpenFile(filepath.Join(c.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		end.Close()
		return fmt.Errorf("keep what was captured: %w", err)
	}
	c.small.Go(func() {
		defer end.Close()
		if err := errors.Join(c.keep(f, end), f.Close()); err != nil {
			c.failed(name, err)
		}
	})
	return nil
}

// keep copies a small image to where it is kept.
func (c captured) keep(to io.Writer, from io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if c.left.Add(-int64(n)) < 0 {
			return fmt.Errorf("what describes the session takes more than %d MiB of memory", smallLimit>>20)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// restored are the images of a restore.
type restored struct{ *images }

// Pipe implements streamer.Images.
func (r restored) Pipe(name string, end *os.File) error {
	if Large(name) {
		return r.pass(name, end)
	}
	f, err := os.Open(filepath.Join(r.dir, name))
	if err != nil {
		end.Close()
		return fmt.Errorf("read what was captured: %w", err)
	}
	r.small.Go(func() {
		defer f.Close()
		defer end.Close()
		// criu may have seen enough of it: it says what it misses.
		_, _ = io.Copy(end, f)
	})
	return nil
}

// stream is one criu with its images.
type stream struct {
	images *images
	listen *streamer.Listener
	conn   chan *streamer.Conn // one, once criu has connected
	done   chan error          // one, when all is streamed
}

// openStream makes the socket and waits for criu on it.
func openStream(dir, socket string, of *images, to streamer.Images) (*stream, error) {
	l, err := streamer.Listen(dir, socket)
	if err != nil {
		return nil, err
	}
	s := &stream{of, l, make(chan *streamer.Conn, 1), make(chan error, 1)}
	go func() {
		c, err := l.Accept(to)
		if err == nil {
			s.conn <- c
			err = c.Run()
		}
		s.done <- err
	}()
	return s, nil
}

// settle returns when all that criu has opened is where it belongs: criu is at a
// step after which it opens no more.
func (s *stream) settle() error {
	c := <-s.conn
	if err := c.CatchUp(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s.images.small.Wait()
	return s.images.err()
}

// close is called when criu has ended. It returns what went wrong on this side.
func (s *stream) close() error {
	s.listen.Close()
	err := <-s.done
	if errors.Is(err, net.ErrClosed) {
		err = nil // criu ended before it connected
	}
	s.images.small.Wait()
	return errors.Join(err, s.images.err())
}

// dumpStreamed runs criu with its images going to the worker. passed says how
// many were passed on, also after an error.
func (d *dumper) dumpStreamed(worker *control.Conn, o rpc.Options, dump *Dump, dumped func() error) (passed int64, err error) {
	of := newImages(d.place.images(), worker)
	of.ahead, of.points = dump.ahead, d.points
	if dump.Rehearses {
		dump.large = newLargeImages()
		of.large = dump.large
	}
	st, err := openStream(d.place.images(), streamer.CaptureSocket, of, captured{of})
	if err != nil {
		return 0, err
	}
	p, err := rpc.StartStreamed(d.criu, rpc.DumpVerb, o, rpc.Here)
	if err == nil {
		err = p.Wait(func(n rpc.Notice) error {
			if n.Step != rpc.PostDump {
				return nil
			}
			if err := st.settle(); err != nil {
				return err
			}
			return dumped()
		})
	}
	if streamErr := st.close(); err != nil && streamErr != nil {
		err = &rpc.Failure{Caller: streamErr} // criu's failure follows from it
	}
	return of.passed.Load(), err
}

// restoreStreamed runs criu with its large images coming from the worker.
func (r *restorer) restoreStreamed(o rpc.Options, files []*os.File, served []string, steps func(criuProcess, rpc.Notice) error) error {
	b := r.boot
	from := newImages(b.place.images(), b.worker)
	from.served = served
	st, err := openStream(b.place.images(), streamer.ServeSocket, from, restored{from})
	if err != nil {
		return err
	}
	p, err := rpc.StartStreamed(b.setup.Criu, rpc.RestoreVerb, o, r.program.apart(b.tree.group), files...)
	if err == nil {
		release := r.endWithWorker()
		err = p.Wait(func(n rpc.Notice) error {
			if n.Step == rpc.PostRestore {
				release()
			}
			return steps(p, n)
		})
		release()
	}
	if err != nil {
		// What criu left of the tree may hold the stream open.
		r.endTree()
	}
	if streamErr := st.close(); err != nil && streamErr != nil {
		err = &rpc.Failure{Caller: streamErr}
	}
	return err
}

// endTree ends what is being restored, and criu with it.
func (r *restorer) endTree() {
	ctx, cancel := context.WithTimeout(context.Background(), undoWait)
	defer cancel()
	_ = r.boot.tree.group.Kill(ctx) // the removal of the session tries again
}

// endWithWorker kills what is being restored if the worker ends before release is
// called: criu doesn't always fail when its pipes end too early.
func (r *restorer) endWithWorker() (release func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if gone, err := r.boot.worker.AwaitHangup(done); gone || err != nil {
			r.endTree()
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-ended
	})
}
