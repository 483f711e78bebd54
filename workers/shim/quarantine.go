package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/inventory"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/shim/criu/rpc"
	"github.com/diapause/diapause/workers/tree"
)

// quarantine is where one rehearsal takes place: a cgroup and a network namespace of its own,
// a view of the session's root, terminals, and a criu that waits for the images. criu makes the
// other namespaces.
type quarantine struct {
	*rehearsals
	init   int // of the original, on the host
	before *inventory.Inventory
	err    error // of making it ready

	group     *cgroup.Group
	boot      *boot // with the shim's ends of what the copy inherits
	meta      meta
	terminals *os.File
	network   *network.Network // of a session whose network is private
	options   rpc.Options
	criu      *rpc.Process  // until it is asked to restore
	over      chan struct{} // closed to end the thread that criu was started by
	own       uint64        // device of the files that the view has of its own

	copy    int // init of the copy, on the host
	after   *inventory.Inventory
	advise  sync.Mutex    // guards advised while the images are made
	advised map[int]bool  // processes in which mappings have flags, by pids within the session
	flagged chan struct{} // closed when these are noted of the original
}

// dir is where the rehearsal's files are: in the scratch memory of the image.
func (r *rehearsals) dir() string    { return filepath.Join(r.place.scratch(), "rehearsal") }
func (r *rehearsals) images() string { return filepath.Join(r.dir(), "criu") }
func (r *rehearsals) view() place {
	return place{dir: filepath.Join(r.dir(), "view"), base: r.place.base}
}

// viewLimit bounds what a rehearsal writes to files, in bytes: it makes links and empty files.
const viewLimit = 256 << 20

// prepare makes a quarantine, all but the images.
func (h *rehearsal) prepare(ctx context.Context) *quarantine {
	q := &quarantine{rehearsals: h.rehearsals, init: h.init, before: h.before, advised: map[int]bool{}}
	if err := q.prepare(ctx); err != nil {
		q.err = q.notReady(err)
	}
	return q
}

func (q *quarantine) notReady(err error) error {
	return fmt.Errorf("prepare a rehearsal of session %s: %w", q.setup.Name, err)
}

func (q *quarantine) prepare(ctx context.Context) (err error) {
	h, err := cgroup.Open(q.setup.Cgroup)
	if err != nil {
		return err
	}
	// One that was given up may have left its group.
	q.group, err = h.Replace(ctx, RehearsalGroup(q.setup.UID), cgroup.Limits{})
	if err != nil {
		return err
	}
	if err := q.mount(); err != nil {
		return err
	}
	if q.meta, err = readMeta(q.place.meta()); err != nil {
		return err
	}
	if q.meta.PrivateNetwork {
		if q.network, err = network.Make(network.Options{Isolated: true, Locked: true}); err != nil {
			return err
		}
		if err := q.repeatDevices(); err != nil {
			return err
		}
	}
	q.boot = &boot{setup: q.setup, place: q.view(), tree: newProcesses(q.setup.Name, q.group)}
	return q.start()
}

// mount mounts the view of the session's root, and terminals.
func (q *quarantine) mount() error {
	view := q.view()
	for _, dir := range []string{q.dir(), q.images(), view.dir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make its directory: %w", err)
		}
	}
	root, err := q.place.rootTree()
	if err != nil {
		return err
	}
	q.own, err = mountView(root, view.dir, viewLimit)
	root.Close()
	if err != nil {
		return err
	}
	if err := q.emptyFiles(); err != nil {
		return err
	}
	if err := os.Mkdir(view.stand(), 0o700); err != nil {
		return fmt.Errorf("make its directory: %w", err)
	}
	q.terminals, err = view.mountTerminals()
	return err
}

// run fills the quarantine's images and restores them, and returns when the copy is killed. taken
// is called as soon as its inventory is taken.
func (q *quarantine) run(ctx context.Context, large *largeImages, taken func()) error {
	if err := q.fillImages(ctx, large); err != nil {
		return q.notReady(err)
	}
	if err := q.points.during(ctx, failpoint.ShimRehearses); err != nil {
		return err
	}
	q.flagged = make(chan struct{})
	go func() {
		defer close(q.flagged)
		q.before.NoteFlags(q.advised)
	}()
	return q.restore(ctx, taken)
}

// unmount removes what prepare has mounted.
func (q *quarantine) unmount() error {
	view := q.view()
	drop(view.terminals())
	drop(view.stand())
	drop(view.root())
	drop(view.dir)
	if err := os.RemoveAll(q.dir()); err != nil {
		return fmt.Errorf("remove the rehearsal's files: %w", err)
	}
	return nil
}

// emptyFiles puts empty files of the same sizes in the place of those that are open for
// writing: to open them would copy them into the view.
func (q *quarantine) emptyFiles() error {
	root := q.view().root()
	for _, p := range q.before.Processes() {
		for _, fd := range p.Writable {
			if err := emptied(root, fd.Link, fd.Via()); err != nil {
				return err
			}
		}
		for _, m := range p.Mappings {
			if m.Shared && strings.HasPrefix(m.Path, "/") {
				if err := emptied(root, m.Path, fmt.Sprintf("/proc/%d/map_files/%x-%x", p.PID, m.Start, m.End)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// smallFile is what is copied into the view rather than replaced, in bytes.
const smallFile = 64 << 10

// emptied makes path in root an empty file of the same size, if it is a large one of the
// session's root file system. Programs stay as they are: criu looks at what they are.
func emptied(root, path, via string) error {
	var st unix.Stat_t
	var sf unix.Statfs_t
	if unix.Stat(via, &st) != nil || unix.Statfs(via, &sf) != nil {
		return nil
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size <= smallFile || int64(sf.Type) != tree.Overlay {
		return nil
	}
	top, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("open the view of the session's root: %w", err)
	}
	defer top.Close()
	name := strings.TrimPrefix(path, "/")
	if f, err := top.Open(name); err == nil {
		var magic [4]byte
		_, err = f.ReadAt(magic[:], 0)
		f.Close()
		if err == nil && bytes.Equal(magic[:], []byte("\x7fELF")) {
			return nil
		}
	}
	f, err := top.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has no name any more
	}
	if err != nil {
		return fmt.Errorf("empty %s in the view: %w", path, err)
	}
	return errors.Join(f.Truncate(st.Size), f.Close())
}

// newRehearsals is the part of a session that rehearses its restores.
func newRehearsals(s Setup, p place, points *points, program *program) *rehearsals {
	return &rehearsals{setup: s, place: p, points: points, program: program}
}
