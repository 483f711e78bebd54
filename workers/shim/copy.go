package shim

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/workers/treecopy"
)

// sessionRoot opens the root directory of a session, as its own processes see
// it. Every path below is resolved within it, so that no symlink leads out.
func sessionRoot(init int) (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root", init), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the session's root: %w", err)
	}
	return os.NewFile(uintptr(fd), "root"), nil
}

// put unpacks the tar stream that the client sends below r.Path, if that is a
// directory inside the session, or as r.Path. No symlink leads out of that
// directory.
func (v *clients) put(ctx context.Context, c net.Conn, r attach.Request) error {
	if err := v.gate.enter(ctx); err != nil {
		return err
	}
	defer v.gate.leave()
	root, err := sessionRoot(v.tree.init)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := treecopy.Receive(c, root, r.Path); err != nil {
		return fmt.Errorf("copy into session %s: %w", v.name, err)
	}
	return nil
}

// get sends r.Path as a tar stream whose names begin with its last element.
func (v *clients) get(ctx context.Context, c net.Conn, r attach.Request) error {
	if err := v.gate.enter(ctx); err != nil {
		return err
	}
	defer v.gate.leave()
	root, err := sessionRoot(v.tree.init)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := treecopy.Send(c, root, r.Path); err != nil {
		return fmt.Errorf("copy out of session %s: %w", v.name, err)
	}
	return nil
}
