package criu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
)

// spool buffers what criu has streamed and the image hasn't taken yet, in as much memory
// as there is room for. Without room it holds one piece, and criu waits for the image.
type spool struct {
	room int64 // bytes

	mu     sync.Mutex
	change sync.Cond // held has fallen, a stream has grown, or all is closed
	held   int64     // bytes in pieces that are in use
	most   int64
	free   [][]byte // pieces to use again
	closed bool
}

// pieceSize is the unit in which a spool takes memory, in bytes: one large page where
// the kernel has them. The memory isn't the garbage collector's, which keeps its peak
// and can be swapped.
const pieceSize = 2 << 20

// fewPieces is what there always is: one is filled while one is taken.
const fewPieces = 2

func newSpool() *spool {
	s := &spool{}
	s.change.L = &s.mu
	return s
}

var errSpoolClosed = errors.New("the capture was given up")

// take gives an empty piece when there is room for it.
func (s *spool) take() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for !s.closed && s.held >= fewPieces*pieceSize && s.held+pieceSize > s.room {
			s.change.Wait()
		}
		if s.closed {
			return nil, errSpoolClosed
		}
		piece, err := s.piece()
		if err != nil {
			return nil, err
		}
		if piece != nil {
			s.held += pieceSize
			s.most = max(s.most, s.held)
			return piece[:0], nil
		}
		s.room = s.held
	}
}

// piece returns memory that is never swapped; nil if there is no more of it. The first
// few pieces, which are always needed, may be swappable like the buffers of the image's
// writer. Callers hold mu.
func (s *spool) piece() ([]byte, error) {
	if n := len(s.free); n > 0 {
		piece := s.free[n-1]
		s.free = s.free[:n-1]
		return piece, nil
	}
	piece, err := unix.Mmap(-1, 0, pieceSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("take memory for what criu streams: %w", err)
	}
	_ = unix.Madvise(piece, unix.MADV_HUGEPAGE) // less to do for the kernel, where it can
	if err := unix.Mlock(piece); err != nil && s.held >= fewPieces*pieceSize {
		_ = unix.Munmap(piece)
		return nil, nil
	}
	return piece, nil
}

// give takes a piece back.
func (s *spool) give(piece []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= pieceSize
	if piece = piece[:pieceSize]; s.closed {
		_ = unix.Munmap(piece)
	} else {
		s.free = append(s.free, piece)
	}
	s.change.Broadcast()
}

// close ends all waits and frees what isn't in use; the rest is freed when it is given back.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, piece := range s.free {
		_ = unix.Munmap(piece)
	}
	s.free = nil
	s.change.Broadcast()
}

// spooled is one of criu's images in a spool, a reader of what came from its pipe.
type spooled struct {
	*spool
	name   string
	filled chan struct{} // closed when all of it has come in
	pieces [][]byte      // filled, by spool.mu
	err    error         // why no more come; io.EOF at the end
	at     []byte        // of the first piece, what hasn't been read
}

// fill takes in what comes from the pipe until its end, or until all is closed.
func (x *spooled) fill(pipe io.Reader) {
	for {
		piece, err := x.take()
		if err == nil {
			var n int
			n, err = io.ReadFull(pipe, piece[:pieceSize])
			piece = piece[:n]
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF
			}
		}
		if piece != nil && len(piece) == 0 {
			x.give(piece)
		}
		x.mu.Lock()
		if len(piece) > 0 {
			x.pieces = append(x.pieces, piece)
		}
		x.err = err
		x.change.Broadcast()
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (x *spooled) Read(b []byte) (int, error) {
	x.mu.Lock()
	for len(x.pieces) == 0 && x.err == nil && !x.closed {
		x.change.Wait()
	}
	if x.closed || len(x.pieces) == 0 {
		defer x.mu.Unlock()
		if x.err == nil {
			return 0, errSpoolClosed
		}
		return 0, x.err
	}
	piece := x.pieces[0]
	x.mu.Unlock()
	if x.at == nil {
		x.at = piece
	}
	n := copy(b, x.at)
	if x.at = x.at[n:]; len(x.at) == 0 {
		x.drop()
	}
	return n, nil
}

// drop gives the first piece back.
func (x *spooled) drop() {
	x.mu.Lock()
	piece := x.pieces[0]
	x.pieces, x.at = x.pieces[1:], nil
	x.mu.Unlock()
	x.give(piece)
}

// incoming takes what criu streams during one capture into the image.
type incoming struct {
	ctx   context.Context // ends with the first failure
	stop  context.CancelCauseFunc
	sink  driver.Sink
	most  int64 // bound on room, in bytes
	spool *spool
	fills sync.WaitGroup
	adds  errgroup.Group
	queue chan *spooled
	all   []*spooled
	last  chan struct{} // closed when the latest image has come in
}

// manyImages is more than a dump streams before one of them has been added: if
// there are more, criu waits.
const manyImages = 1024

func newIncoming(ctx context.Context, sink driver.Sink, most int64) *incoming {
	in := &incoming{sink: sink, most: most, spool: newSpool(), queue: make(chan *spooled, manyImages)}
	in.ctx, in.stop = context.WithCancelCause(ctx)
	context.AfterFunc(in.ctx, in.spool.close)
	in.adds.Go(in.add)
	return in
}

// add adds one image after the other. Once that has failed criu's pipes break, and
// so criu fails.
func (in *incoming) add() error {
	var failed error
	for x := range in.queue {
		if failed != nil {
			continue
		}
		if failed = addStream(in.ctx, in.sink, x.name, x); failed != nil {
			in.stop(failed)
		}
	}
	return failed
}

// take begins to take in one of criu's images, whose pipe it takes over.
func (in *incoming) take(name string, room int64, f *os.File) error {
	pipe, err := waitable(f)
	if err != nil {
		return err
	}
	in.spool.mu.Lock()
	in.spool.room = min(room, in.most)
	in.spool.mu.Unlock()
	x := &spooled{spool: in.spool, name: name, filled: make(chan struct{})}
	before := in.last
	in.last = x.filled
	in.fills.Go(func() {
		defer close(x.filled)
		defer pipe.Close()
		if before != nil {
			<-before // else this one might take the room that the one before needs to end
		}
		stop := context.AfterFunc(in.ctx, func() { _ = pipe.SetReadDeadline(time.Now()) })
		defer stop()
		x.fill(pipe)
	})
	in.all = append(in.all, x)
	in.queue <- x
	return nil
}

// done waits until all is in the image, or gives up if ok is false. held is the
// most that was waiting at a time, in bytes.
func (in *incoming) done(ok bool) (held int64, err error) {
	if !ok {
		in.stop(context.Canceled)
	}
	close(in.queue)
	err = in.adds.Wait()
	in.stop(nil)
	in.fills.Wait()
	in.spool.close()
	for _, x := range in.all {
		for len(x.pieces) > 0 {
			x.drop()
		}
	}
	in.spool.mu.Lock()
	defer in.spool.mu.Unlock()
	return in.spool.most, err
}

// awaitDump returns when all is dumped. Until then it adds to the image what
// criu streams.
func awaitDump(ctx context.Context, conn *control.Conn, sink driver.Sink, most int64) (*shim.Dump, taken, error) {
	in := newIncoming(ctx, sink, most)
	release := context.AfterFunc(in.ctx, func() { _ = conn.SetDeadline(time.Now().Add(finishWait)) })
	dump, from, err := in.receive(conn)
	release()
	first := in.ctx.Err() != nil // the rest follows from it
	held, addErr := in.done(err == nil)
	switch {
	case err == nil && addErr == nil:
		dump.Held += held
		return dump, from, nil
	case err == nil:
		from.close()
		return nil, taken{}, errors.Join(addErr, finish(conn, false))
	case first && addErr != nil && driver.KindOf(err) != driver.Broken:
		return nil, taken{}, addErr
	case first && addErr != nil:
		return nil, taken{}, errors.Join(addErr, err)
	}
	return nil, taken{}, err
}

// receive handles the messages of the shim until all is dumped.
func (in *incoming) receive(conn *control.Conn) (*shim.Dump, taken, error) {
	for {
		var m shim.Message
		files, err := conn.Receive(&m)
		switch {
		case err != nil:
			return nil, taken{}, fmt.Errorf("%w: the session's shim ended (%v)", driver.ErrNotHere, err)
		case m.Failure != nil:
			return nil, taken{}, m.Failure.Err()
		case m.Phase == shim.PhasePages && len(files) == 1:
			if err := in.take(m.Name, m.Room, files[0]); err != nil {
				in.stop(err)
				return nil, taken{}, errors.Join(err, giveUp(conn))
			}
		case m.Phase == shim.PhaseDumped && len(files) == 3 && m.Dump != nil:
			return m.Dump, taken{files[0], files[1], files[2]}, nil
		default:
			closeAll(files)
			return nil, taken{}, fmt.Errorf("the session's shim said %q instead of %q", m.Phase, shim.PhaseDumped)
		}
	}
}
