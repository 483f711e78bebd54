package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
)

// gates keep what is copied into containers and their captures apart, by session: what has
// been copied is in the image, or the copy comes after it.
type gates struct {
	mu sync.Mutex
	of map[schemas.UID]*sync.RWMutex
}

func (g *gates) gate(uid schemas.UID) *sync.RWMutex {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[schemas.UID]*sync.RWMutex{}
	}
	if g.of[uid] == nil {
		g.of[uid] = &sync.RWMutex{}
	}
	return g.of[uid]
}

// gateEvery is how often a gate is tried.
const gateEvery = 10 * time.Millisecond

// pass tries a gate until it opens or ctx ends.
func pass(ctx context.Context, try func() bool) error {
	for !try() {
		select {
		case <-time.After(gateEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// copyWait is how long a copy waits for the end of a capture.
const copyWait = 10 * time.Second

// enter waits until a session isn't being captured, and keeps it so until leave is called.
func (d *Driver) enter(ctx context.Context, uid schemas.UID) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, copyWait)
	defer cancel()
	gate := d.gates.gate(uid)
	var n note
	free := func() bool {
		if !gate.TryRLock() {
			return false
		}
		if n, err = d.notes.read(uid); err == nil && n.Phase == frozen {
			gate.RUnlock()
			return false
		}
		return true
	}
	if late := pass(ctx, free); late != nil {
		return nil, fmt.Errorf("session %s is being captured: try again", n.Name)
	}
	if err == nil && n.Phase != here {
		err = driver.ErrNotHere
	}
	if err != nil {
		gate.RUnlock()
		return nil, err
	}
	return gate.RUnlock, nil
}

// visible refuses a path where only the container's own processes see what is there: the
// engine would copy to or from what is hidden below it.
func (d *Driver) visible(ctx context.Context, n note, name string) error {
	got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil {
		return d.asked("look at the container of session "+n.Name.String(), err)
	}
	hidden := []string{"/proc", "/sys", "/dev"}
	for at := range got.Container.HostConfig.Tmpfs {
		hidden = append(hidden, at)
	}
	for _, m := range got.Container.Mounts {
		if m.Type == mount.TypeTmpfs {
			hidden = append(hidden, m.Destination)
		}
	}
	for _, at := range hidden {
		if inside(name, at) {
			return refuse("%s of session %s is memory of the container's (%s), which can't be copied from outside: `diapause exec` can", name, n.Name, at)
		}
	}
	return nil
}

// get sends a file or a directory of the container as a tar stream whose names begin with
// its last element.
func (d *Driver) get(ctx context.Context, n note, r shim.Request, conn io.Writer) error {
	if err := d.visible(ctx, n, path.Clean("/"+r.Path)); err != nil {
		return err
	}
	got, err := d.engine.CopyFromContainer(ctx, n.Container, client.CopyFromContainerOptions{SourcePath: path.Clean("/" + r.Path)})
	if missing(err) {
		return refuse("copy out of session %s: %s: there is no such file", n.Name, r.Path)
	}
	if err != nil {
		return d.asked("copy out of session "+n.Name.String(), err)
	}
	defer got.Content.Close()
	if err := shim.WriteFrame(conn, shim.FrameStarted, nil); err != nil {
		return err
	}
	if _, err := io.Copy(frames{conn, shim.FrameStdout}, got.Content); err != nil {
		return d.asked("copy out of session "+n.Name.String(), err)
	}
	return exit(conn, 0)
}

// put unpacks the tar stream that the client sends below r.Path, if that is a directory in
// the container, or as r.Path.
func (d *Driver) put(ctx context.Context, n note, r shim.Request, conn io.ReadWriter) error {
	leave, err := d.enter(ctx, n.UID)
	if err != nil {
		return err
	}
	defer leave()
	if err := d.visible(ctx, n, path.Clean("/"+r.Path)); err != nil {
		return err
	}
	dir, as, err := d.target(ctx, n, path.Clean("/"+r.Path))
	if err != nil {
		return err
	}
	if err := shim.WriteFrame(conn, shim.FrameStarted, nil); err != nil {
		return err
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := rename(pw, &sent{conn: conn}, as)
		pw.CloseWithError(err)
		done <- err
	}()
	_, err = d.engine.CopyToContainer(ctx, n.Container, client.CopyToContainerOptions{DestinationPath: dir, Content: pr})
	pr.CloseWithError(errors.New("the engine has ended the copy"))
	if readErr := <-done; readErr != nil && err == nil {
		err = readErr
	}
	if err != nil {
		return d.asked(fmt.Sprintf("copy to %s of session %s", r.Path, n.Name), err)
	}
	return exit(conn, 0)
}

// target finds the directory to unpack in: name itself, or else the one that name lies in,
// with the name that what comes gets there.
func (d *Driver) target(ctx context.Context, n note, name string) (dir, as string, err error) {
	isDir := func(p string) (bool, error) {
		got, err := d.engine.ContainerStatPath(ctx, n.Container, client.ContainerStatPathOptions{Path: p})
		if err == nil && got.Stat.Mode&os.ModeSymlink != 0 && got.Stat.LinkTarget != "" {
			got, err = d.engine.ContainerStatPath(ctx, n.Container, client.ContainerStatPathOptions{Path: got.Stat.LinkTarget})
		}
		if missing(err) {
			return false, nil
		}
		if err != nil {
			return false, d.asked("look for "+p+" in session "+n.Name.String(), err)
		}
		return got.Stat.Mode.IsDir(), nil
	}
	if ok, err := isDir(name); ok || err != nil {
		return name, "", err
	}
	ok, err := isDir(path.Dir(name))
	if err == nil && !ok {
		err = refuse("copy into session %s: %s: there is no such directory", n.Name, path.Dir(name))
	}
	return path.Dir(name), path.Base(name), err
}

// rename passes a tar stream on, with as in place of the first element of its names if that
// is given.
func rename(w io.Writer, r io.Reader, as string) error {
	in, out := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		default:
			return fmt.Errorf("%s: only files, directories and symlinks are copied", h.Name)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if as != "" {
			_, rest, _ := strings.Cut(name, "/")
			name = path.Join(as, rest)
		}
		if name == "" {
			continue
		}
		h.Name = name
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// sent reads a client's input as a plain stream.
type sent struct {
	conn io.Reader
	left []byte
}

func (s *sent) Read(p []byte) (int, error) {
	for len(s.left) == 0 {
		kind, payload, err := shim.ReadFrame(s.conn)
		switch {
		case err != nil:
			return 0, fmt.Errorf("the client is gone: %w", err)
		case kind == shim.FrameStdinEOF:
			return 0, io.EOF
		case kind == shim.FrameStdin:
			s.left = payload
		}
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}
