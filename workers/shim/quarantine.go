package shim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/inventory"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/shim/stage"
	"github.com/diapause/diapause/workers/thread"
	"github.com/diapause/diapause/workers/tree"
)

// quarantine is where one rehearsal takes place: a cgroup and a network namespace of its own,
// a view of the session's root, terminals. criu makes the other namespaces.
type quarantine struct {
	*rehearsals
	init int // of the original, on the host

	group     *cgroup.Group
	boot      *boot // with the shim's ends of what the copy inherits
	meta      meta
	terminals *os.File
	copy      int              // init of the copy, on the host
	network   *network.Network // of a session whose network is private
	after     *inventory.Inventory
}

// dir is where the rehearsal's files are: in the scratch memory of the image.
func (r *rehearsals) dir() string    { return filepath.Join(r.place.scratch(), "rehearsal") }
func (r *rehearsals) images() string { return filepath.Join(r.dir(), "criu") }
func (r *rehearsals) view() place {
	return place{dir: filepath.Join(r.dir(), "view"), base: r.place.base}
}

// viewLimit bounds what a rehearsal writes to files, in bytes: it makes links and empty files.
const viewLimit = 256 << 20

func (q *quarantine) prepare(ctx context.Context, large *largeImages) (err error) {
	h, err := cgroup.Open(q.setup.Cgroup)
	if err != nil {
		return err
	}
	q.group, err = h.Create(RehearsalGroup(q.setup.UID), cgroup.Limits{})
	if err != nil {
		return err
	}
	view := q.view()
	for _, dir := range []string{q.dir(), q.images(), view.dir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make its directory: %w", err)
		}
	}
	if err := q.fillImages(ctx, large); err != nil {
		return err
	}
	root, err := q.place.rootTree()
	if err != nil {
		return err
	}
	err = mountView(root, view.dir, viewLimit)
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
	if q.terminals, err = view.mountTerminals(); err != nil {
		return err
	}
	if q.meta, err = readMeta(q.place.meta()); err != nil {
		return err
	}
	if q.meta.PrivateNetwork {
		if q.network, err = network.Make(network.Options{Isolated: true, Locked: true}); err != nil {
			return err
		}
	}
	q.boot = &boot{setup: q.setup, place: view, tree: newProcesses(q.setup.Name, q.group)}
	return nil
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
	for _, pid := range wholeTree(q.init) {
		fds, err := tree.FDs(pid)
		if err != nil {
			return err
		}
		for _, fd := range fds {
			if strings.HasPrefix(fd.Link, "/") && writable(fd) {
				if err := emptied(root, fd.Link, fd.Via()); err != nil {
					return err
				}
			}
		}
		maps, err := mappingsOf(pid)
		if err != nil {
			return err
		}
		for _, m := range maps {
			if m.shared && strings.HasPrefix(m.path, "/") {
				if err := emptied(root, m.path, fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func writable(fd tree.FD) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", fd.PID, fd.Num))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		var flags int
		if _, err := fmt.Sscanf(line, "flags: %o", &flags); err == nil {
			return flags&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
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

// alone runs do on a thread whose network namespace is new, with nothing but a loopback
// interface, to which every address leads: what a program is bound or connected to can be
// restored there, and reaches nothing. The thread ends when over is closed, and with it what
// is to end with its parent.
func alone(over <-chan struct{}, do func() error) error {
	done := make(chan error, 1)
	go func() {
		_ = thread.Discard(func() error {
			err := unix.Unshare(unix.CLONE_NEWNET)
			if err == nil {
				err = stage.LoopbackUp()
			}
			if err == nil {
				err = allLocal()
			}
			if err == nil {
				err = do()
			}
			done <- err
			<-over
			return nil
		})
	}()
	return <-done
}

// loopback is the index of lo, the first interface of each network namespace.
const loopback = 1

// allLocal makes every address one of this host, in the thread's network namespace. IPv6 may
// be switched off.
func allLocal() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("add routes to the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		m := binary.NativeEndian.AppendUint32(nil, unix.SizeofNlMsghdr+unix.SizeofRtMsg+unix.SizeofRtAttr+4)
		m = binary.NativeEndian.AppendUint16(m, unix.RTM_NEWROUTE)
		m = binary.NativeEndian.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_ACK)
		m = append(m, make([]byte, 8)...)
		m = append(m, family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0)
		m = binary.NativeEndian.AppendUint16(m, unix.SizeofRtAttr+4)
		m = binary.NativeEndian.AppendUint16(m, unix.RTA_OIF)
		m = binary.NativeEndian.AppendUint32(m, loopback)
		if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return fmt.Errorf("add routes to the loopback interface: %w", err)
		}
		answer := make([]byte, 4096)
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return fmt.Errorf("add routes to the loopback interface: %w", err)
		}
		if n < unix.SizeofNlMsghdr+4 {
			return errors.New("add routes to the loopback interface: the kernel's answer is cut short")
		}
		code := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])))
		if code != 0 && family == unix.AF_INET {
			return fmt.Errorf("add routes to the loopback interface: %w", code)
		}
	}
	return nil
}

// newRehearsals is the part of a session that rehearses its restores.
func newRehearsals(s Setup, p place, points *points) *rehearsals {
	return &rehearsals{setup: s, place: p, points: points}
}
