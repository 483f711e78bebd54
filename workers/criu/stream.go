package criu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
)

var (
	_ driver.Sequencer = (*image.Reader)(nil)
	_ image.Borrower   = (*lender)(nil)
)

// pipeSize is what a pipe between criu and the image holds, in bytes: enough for
// each side to work for a while without the other.
const pipeSize = 1 << 20

// waitable makes a pipe that criu made one that a deadline ends. It takes f over.
func waitable(f *os.File) (*os.File, error) {
	defer f.Close()
	// A smaller pipe works, too.
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, pipeSize)
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open criu's pipe: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open criu's pipe: %w", err)
	}
	return os.NewFile(uintptr(fd), "criu's pipe"), nil
}

// addStream adds one of criu's images while criu writes it.
func addStream(ctx context.Context, sink driver.Sink, name string, r io.Reader) error {
	e := image.Entry{Name: path.Join(partCriu, name), Type: image.TypeFile, Mode: 0o600, Size: -1}
	err := sink.Add(e, r)
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errSpoolClosed) {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("add what criu dumps to the image: %w", err)
}

// large lists criu's images that a source can hand out while criu restores, and
// their sum in bytes.
func large(source driver.Source) (names []string, size int64) {
	for _, e := range source.Entries() {
		name, ok := strings.CutPrefix(e.Name, partCriu+"/")
		if ok && e.Type == image.TypeFile && shim.Large(name) {
			names = append(names, name)
			size += e.Size
		}
	}
	return names, size
}

// serve gives criu the images that it asks for, until all is restored and nothing
// has run. It gives the shim's warnings of what comes back different.
func serve(ctx context.Context, conn *control.Conn, source driver.Source, served []string) ([]schemas.Warning, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	for {
		m, file, err := nextImage(conn, served)
		if err == nil && file != nil {
			g.Go(func() error {
				err := giveImage(ctx, source, m.Name, file)
				if err != nil {
					// Not all of criu notices the early end of a pipe: don't wait for it.
					_ = conn.SetDeadline(time.Now())
				}
				return err
			})
			continue
		}
		cancel() // criu wants no more, either way
		// What couldn't be read is why criu failed.
		if readErr := g.Wait(); readErr != nil {
			return nil, readErr
		}
		return m.Warnings, err
	}
}

// nextImage receives the pipe for an image that criu wants; none says that all is
// restored.
func nextImage(conn *control.Conn, served []string) (m shim.Message, pipe *os.File, err error) {
	files, err := conn.Receive(&m)
	if err == nil && m.Failure == nil && m.Phase == shim.PhasePages && len(files) == 1 && slices.Contains(served, m.Name) {
		return m, files[0], nil
	}
	closeAll(files)
	switch {
	case err != nil:
		err = fmt.Errorf("the session's shim ended: %w", err)
	case m.Failure != nil:
		err = m.Failure.Err()
	case m.Phase != shim.PhaseReady:
		err = fmt.Errorf("the session's shim said %q instead of %q", m.Phase, shim.PhaseReady)
	}
	return m, nil, err
}

// giveImage writes one of criu's images into its pipe. Only what goes wrong with
// the image is an error: criu may close the pipe before its end.
func giveImage(ctx context.Context, source driver.Source, name string, f *os.File) error {
	pipe, err := waitable(f)
	if err != nil {
		return err
	}
	defer pipe.Close()
	stop := context.AfterFunc(ctx, func() { _ = pipe.SetWriteDeadline(time.Now()) })
	defer stop()
	r, err := source.Open(path.Join(partCriu, name))
	if err != nil {
		return err
	}
	defer r.Close()
	to, err := newLender(pipe, lendable(source, name))
	if err != nil {
		return err
	}
	defer to.end()
	if _, err := io.CopyBuffer(to, r, make([]byte, pipeSize)); err != nil && to.err == nil {
		return fmt.Errorf("restore %s: %w", name, err)
	}
	return nil
}

// lendable is the size of an image that may be lent to its pipe, in bytes, 0 if it may not:
// of the large ones criu reads pages into memory, while it may move others on.
func lendable(source driver.Source, name string) int64 {
	if !strings.HasPrefix(name, "pages-") {
		return 0
	}
	for _, e := range source.Entries() {
		if e.Name == path.Join(partCriu, name) && e.Type == image.TypeFile {
			return e.Size
		}
	}
	return 0
}
