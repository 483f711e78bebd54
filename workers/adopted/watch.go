package adopted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// unknownEnd is the exit status of a process whose own isn't known, as that of a shim's command.
const unknownEnd = 125

// ends waits for sessions to end by themselves. A process is held by a pidfd meanwhile: that tells
// how it ended, on kernels that have it, also when another one has waited for it.
type ends struct {
	mu      sync.Mutex
	held    map[schemas.UID]*held
	changed chan struct{} // closed at the next change
}

// held is one process that is waited for.
type held struct {
	of      note
	file    *os.File // its pidfd; nil if it had ended before
	watched bool     // by Exits
}

func (e *ends) init() {
	if e.held == nil {
		e.held, e.changed = map[schemas.UID]*held{}, make(chan struct{})
	}
}

// await holds the first process of a session. One that has ended by then is reported as well.
func (e *ends) await(n note) {
	h := &held{of: n}
	if fd, err := unix.PidfdOpen(n.PID, unix.PIDFD_NONBLOCK); err == nil {
		h.file = os.NewFile(uintptr(fd), "pidfd")
		if !alive(n.PID, n.Start) { // it may be another's by now
			h.file.Close()
			h.file = nil
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.init()
	if old := e.held[n.UID]; old != nil {
		old.close()
	}
	e.held[n.UID] = h
	e.tell()
}

// tell has Exits look again. Callers hold mu.
func (e *ends) tell() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// forget ends the wait for a session whose end was ordered.
func (e *ends) forget(uid schemas.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.held[uid]; h != nil {
		h.close()
		delete(e.held, uid)
	}
}

func (h *held) close() {
	if h.file != nil {
		h.file.Close() // ends a wait for it
	}
}

// of says how a session ended, as far as that is known.
func (e *ends) of(n note) schemas.ExitStatus {
	e.mu.Lock()
	h := e.held[n.UID]
	e.mu.Unlock()
	if status, ok := zombieExit(n); ok {
		return statusOf(status)
	}
	if h != nil && h.file != nil && h.of.PID == n.PID && h.of.Start == n.Start {
		if status, ok := exitOf(h.file); ok {
			return statusOf(status)
		}
	}
	return schemas.ExitStatus{Code: unknownEnd, Reason: "how it ended isn't known: its parent has waited for it, or this kernel doesn't tell"}
}

// zombieExit says how a process ended that no one has waited for yet: the last field of its stat.
func zombieExit(n note) (status syscall.WaitStatus, known bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.PID))
	if err != nil {
		return 0, false
	}
	p, err := parseStat(string(b))
	if err != nil || p.Start != n.Start || p.State != 'Z' {
		return 0, false
	}
	fields := strings.Fields(string(b))
	code, err := strconv.Atoi(fields[len(fields)-1])
	return syscall.WaitStatus(code), err == nil
}

// statusOf puts a wait status into words.
func statusOf(w syscall.WaitStatus) schemas.ExitStatus {
	if w.Signaled() {
		return schemas.ExitStatus{Code: 128 + int(w.Signal()), Signal: int(w.Signal())}
	}
	return schemas.ExitStatus{Code: w.ExitStatus()}
}

// pidfdInfo is the kernel's struct pidfd_info, as far as this package reads it.
type pidfdInfo struct {
	Mask uint64
	_    [52]byte // ids of its cgroup, the process and its users
	Exit int32
}

const (
	wantExit     = 1 << 3     // PIDFD_INFO_EXIT: since Linux 6.15
	pidfdGetInfo = 0xc040ff0b // PIDFD_GET_INFO of 64 bytes
)

// exitOf asks a pidfd how its process ended. It reports whether the kernel knows: it does once the
// process was waited for.
func exitOf(f *os.File) (status syscall.WaitStatus, known bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	info := pidfdInfo{Mask: wantExit}
	_ = raw.Control(func(fd uintptr) { // closed: it isn't known
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
		known = errno == 0 && info.Mask&wantExit != 0
	})
	return syscall.WaitStatus(info.Exit), known
}

// unwatched gives the sessions that no Exits waits for yet, and a channel that tells of more.
func (e *ends) unwatched() (all []*held, more <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.init()
	for _, h := range e.held {
		if !h.watched {
			h.watched = true
			all = append(all, h)
		}
	}
	return all, e.changed
}

// release lets another Exits wait for what this one did.
func (e *ends) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.held {
		h.watched = false
	}
}

// Exits implements driver.Watcher. One runs at a time.
func (d *Driver) Exits(ctx context.Context) <-chan driver.Instance {
	out := make(chan driver.Instance)
	go func() {
		defer close(out)
		defer d.ends.release()
		var waiting sync.WaitGroup
		defer waiting.Wait()
		for {
			all, more := d.ends.unwatched()
			for _, h := range all {
				waiting.Go(func() { d.watch(ctx, h, out) })
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// watch delivers the end of a session.
func (d *Driver) watch(ctx context.Context, h *held, out chan<- driver.Instance) {
	if !h.wait(ctx) {
		return
	}
	n, err := d.notes.ended(h.of, d.ends.of(h.of))
	if err != nil || n.Phase != here || n.PID != h.of.PID || n.Start != h.of.Start {
		return // its end was ordered, or the next look finds it
	}
	i, err := d.instance(n)
	if err != nil || i.State != driver.Exited {
		return
	}
	select {
	case out <- i:
	case <-ctx.Done():
	}
}

// wait returns when the process has ended, and reports that; not if ctx has ended or the process is
// forgotten.
func (h *held) wait(ctx context.Context) (ended bool) {
	if h.file == nil {
		return true
	}
	raw, err := h.file.SyscallConn()
	if err != nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { h.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ended = n > 0
		return ended || err != nil && !errors.Is(err, unix.EINTR)
	})
	return err == nil && ended && ctx.Err() == nil
}
