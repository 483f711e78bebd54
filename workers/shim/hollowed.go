package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/inventory"
	"github.com/diapause/diapause/workers/shim/criu/hollow"
)

// largeImages is what a rehearsal must know of the images that went to the worker.
type largeImages struct {
	mu     sync.Mutex
	names  []string
	ghosts map[string]*ghostImage
}

// ghostImage is the beginning of a file without a name, and its size once that is known.
type ghostImage struct {
	head []byte
	size int64
	err  error
	done chan struct{}
}

// ghostHead is more than what describes a file without a name, in bytes.
const ghostHead = 64 << 10

func newLargeImages() *largeImages { return &largeImages{ghosts: map[string]*ghostImage{}} }

// through notes an image that goes to the worker by end, and gives what the worker gets in
// its place.
func (l *largeImages) through(name string, end *os.File) (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = append(l.names, name)
	if !strings.HasPrefix(name, "ghost-file-") {
		return end, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		end.Close()
		return nil, fmt.Errorf("make a pipe for the image %s: %w", name, err)
	}
	g := &ghostImage{done: make(chan struct{})}
	l.ghosts[name] = g
	go g.pass(w, end)
	return r, nil
}

// pass copies the image and notes what it begins with. What can't be written any more isn't
// wanted: the worker says why.
func (g *ghostImage) pass(to, from *os.File) {
	defer close(g.done)
	defer from.Close()
	defer to.Close()
	head := make([]byte, ghostHead)
	n, err := io.ReadFull(from, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		g.err = err
		return
	}
	g.head, g.size = head[:n], int64(n)
	if _, g.err = to.Write(g.head); g.err != nil {
		return
	}
	rest, err := io.Copy(to, from)
	g.size, g.err = g.size+rest, err
}

// fillImages makes the images of the rehearsal, several at a time: links to those that describe,
// hollow ones of those that hold content.
func (q *quarantine) fillImages(ctx context.Context, large *largeImages) error {
	entries, err := os.ReadDir(q.place.images())
	if err != nil {
		return fmt.Errorf("list the images: %w", err)
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	fill := func(name string, how func() error) {
		g.Go(func() error {
			if err := how(); err != nil {
				return fmt.Errorf("make the image %s for a rehearsal: %w", name, err)
			}
			return nil
		})
	}
	processes := q.byInner()
	for _, e := range entries {
		if name := e.Name(); e.Type().IsRegular() {
			fill(name, func() error { return q.fillImage(name, processes) })
		}
	}
	if large != nil {
		for _, name := range large.names {
			switch {
			case strings.HasPrefix(name, "tmpfs-"):
				fill(name, func() error { return q.hollowFiles(name) })
			case large.ghosts[name] != nil:
				fill(name, func() error { return q.passedGhost(ctx, name, large.ghosts[name]) })
			}
		}
	}
	return g.Wait()
}

// fillImage makes one image of those that didn't go to the worker.
func (q *quarantine) fillImage(name string, processes map[int]inventory.Process) error {
	switch {
	case name == logName, strings.HasPrefix(name, "pages-"):
		return nil
	case strings.HasPrefix(name, "pagemap-"):
		return q.hollowPages(name, processes)
	case strings.HasPrefix(name, "mm-"):
		return q.unlocked(name)
	case strings.HasPrefix(name, "tmpfs-"):
		return q.hollowFiles(name)
	case strings.HasPrefix(name, "ghost-file-"):
		return q.hollowGhost(name)
	}
	return os.Link(filepath.Join(q.place.images(), name), filepath.Join(q.images(), name))
}

func (q *quarantine) unlocked(name string) error {
	b, err := os.ReadFile(filepath.Join(q.place.images(), name))
	if err != nil {
		return err
	}
	advised, err := hollow.Advised(b)
	if err != nil {
		return err
	}
	if inner, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(name, "mm-"), ".img")); err == nil && advised {
		q.advise.Lock()
		q.advised[inner] = true
		q.advise.Unlock()
	}
	if b, err = hollow.Unlocked(b); err != nil {
		return err
	}
	return q.write(name, b)
}

func (q *quarantine) write(name string, b []byte) error {
	return os.WriteFile(filepath.Join(q.images(), name), b, 0o600)
}

// byInner finds the original's processes by their pids within the session.
func (q *quarantine) byInner() map[int]inventory.Process {
	all := map[int]inventory.Process{}
	for _, p := range q.before.Processes() {
		all[p.Inner] = p
	}
	return all
}

// hollowPages makes a page map without pages but those that a restore itself reads: the
// kernel's own code in the process, and rings of asynchronous I/O.
func (q *quarantine) hollowPages(name string, processes map[int]inventory.Process) error {
	b, err := os.ReadFile(filepath.Join(q.place.images(), name))
	if err != nil {
		return err
	}
	var present []hollow.Range
	var content []byte
	inner, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(name, "pagemap-"), ".img"))
	if p, ok := processes[inner]; err == nil && ok { // else of shared memory
		memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.PID))
		if err != nil {
			return err
		}
		defer memory.Close()
		for _, m := range p.Mappings {
			if m.Path != "[vdso]" && !strings.HasPrefix(m.Path, "/[aio]") {
				continue
			}
			part := make([]byte, m.End-m.Start)
			if _, err := memory.ReadAt(part, int64(m.Start)); err != nil {
				return err
			}
			present, content = append(present, hollow.Range{Start: m.Start, End: m.End}), append(content, part...)
		}
	}
	out, pages, err := hollow.Pagemap(b, present)
	if err != nil {
		return err
	}
	return errors.Join(q.write(name, out), q.write(fmt.Sprintf("pages-%d.img", pages), content))
}

// hollowFiles makes the image of a memory file system from what is mounted in the session.
func (q *quarantine) hollowFiles(name string) error {
	number, _, _ := strings.Cut(strings.TrimPrefix(name, "tmpfs-dev-"), ".")
	device, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return errors.New("its name says no device")
	}
	dir, err := mountedAt(q.init, device>>20, device&(1<<20-1))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(q.images(), name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(hollow.Archive(f, dir), f.Close())
}

// mountedAt finds where a whole file system is mounted in a process's root.
func mountedAt(pid int, major, minor uint64) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return "", fmt.Errorf("find the session's mounts: %w", err)
	}
	device := fmt.Sprintf("%d:%d", major, minor)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[2] != device || f[3] != "/" {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/root%s", pid, unescaped.Replace(f[4]))
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil && st.Dev == unix.Mkdev(uint32(major), uint32(minor)) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no mount of %s can be seen in the session", device)
}

// unescaped turns a field of mountinfo into a path.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func (q *quarantine) hollowGhost(name string) error {
	f, err := os.Open(filepath.Join(q.place.images(), name))
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, min(ghostHead, st.Size()))
	if _, err := io.ReadFull(f, head); err != nil {
		return err
	}
	b, err := hollow.Ghost(head, st.Size())
	if err != nil {
		return err
	}
	return q.write(name, b)
}

// passedGhost is hollowGhost for an image that went to the worker.
func (q *quarantine) passedGhost(ctx context.Context, name string, g *ghostImage) error {
	select {
	case <-g.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if g.err != nil {
		return g.err
	}
	b, err := hollow.Ghost(g.head, g.size)
	if err != nil {
		return err
	}
	return q.write(name, b)
}
