package criu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/shim"
)

// stoppedAt has a rehearsal of the session stop at a failpoint, calls do with the pid of the
// shim, which stands still, and lets it go on. It returns what the capture ends with.
func (s *session) stoppedAt(ctx context.Context, at failpoint.Name, do func(shimPID int)) error {
	s.t.Helper()
	return s.stoppedInto(ctx, &drivertest.Image{}, at, do)
}

// stoppedInto is stoppedAt with an image of its own.
func (s *session) stoppedInto(ctx context.Context, sink driver.Sink, at failpoint.Name, do func(shimPID int)) error {
	s.t.Helper()
	_, err := s.stoppedWith(ctx, sink, at, do)
	return err
}

// stoppedWith is stoppedInto that gives what was captured.
func (s *session) stoppedWith(ctx context.Context, sink driver.Sink, at failpoint.Name, do func(shimPID int)) (c driver.Captured, err error) {
	s.t.Helper()
	marks := s.t.TempDir()
	points, err := failpoint.Parse(fmt.Sprintf("%s=stop;once=%s", at, marks))
	if err != nil {
		s.t.Fatal(err)
	}
	s.d.options.Failpoints = points
	defer func() { s.d.options.Failpoints = nil }()
	f, ended := s.next(), make(chan error, 1)
	go func() {
		var err error
		c, err = s.d.CaptureRehearsed(ctx, f, sink, schemas.RehearseAlways)
		ended <- err
	}()
	stopped := s.stoppedShim(s.t, filepath.Join(marks, string(at)+"@1"))
	do(stopped)
	if err := unix.Kill(stopped, unix.SIGCONT); err != nil {
		s.t.Fatal(err)
	}
	return c, <-ended
}

// inGroup lists the processes of the session's rehearsal, by their command lines.
func (s *session) inGroup() map[int]string {
	g, ok := s.d.shims.hierarchy.Group(shim.RehearsalGroup(s.uid))
	if !ok {
		return nil
	}
	all := map[int]string{}
	pids, _ := g.Pids() // none once it is gone
	for _, pid := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		all[pid] = strings.ReplaceAll(string(b), "\x00", " ")
	}
	return all
}

var rehearsalPoints = []failpoint.Name{failpoint.ShimRehearses, failpoint.ShimRehearsed, failpoint.ShimCompared}

// TestRehearsalCancelled has a capture given up at each point of its rehearsal: the session
// runs on, and nothing is left.
func TestRehearsalCancelled(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "cancelled", counting)
	count(t, s.d, s.uid)
	held := s.holds()
	for _, at := range rehearsalPoints {
		ctx, cancel := context.WithCancel(limited(t))
		if err := s.stoppedAt(ctx, at, func(int) { cancel() }); !errors.Is(err, context.Canceled) {
			t.Errorf("given up at %s it ends with %v", at, err)
		}
		count(t, s.d, s.uid)
		s.nothingLeft()
		s.holdsOnly(held)
	}
	s.cycle()
	count(t, s.d, s.uid)
}

// TestRehearsalIsUndone has a capture given up while its rehearsal hangs, which ends with it.
func TestRehearsalIsUndone(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "undone", counting)
	count(t, s.d, s.uid)
	for _, at := range []failpoint.Name{failpoint.ShimRehearses, failpoint.ShimRehearsed} {
		marks := t.TempDir()
		var err error
		if s.d.options.Failpoints, err = failpoint.Parse(fmt.Sprintf("%s=hang;once=%s", at, marks)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(limited(t))
		go func() {
			for ctx.Err() == nil {
				if found, _ := filepath.Glob(filepath.Join(marks, "*")); len(found) > 0 {
					cancel()
				}
			}
		}()
		if _, err := s.d.CaptureRehearsed(ctx, s.next(), &drivertest.Image{}, schemas.RehearseAlways); !errors.Is(err, context.Canceled) {
			t.Errorf("given up at %s it ends with %v", at, err)
		}
		count(t, s.d, s.uid)
		s.nothingLeft()
	}
}

// fullSink takes what criu streams, and nothing else once it is full.
type fullSink struct {
	drivertest.Image
	full    chan struct{} // closed when it is
	refuses chan struct{} // closed when it refuses something
}

var errFull = errors.New("the store is full")

func (f *fullSink) Add(e image.Entry, r io.Reader) error {
	if shim.Large(path.Base(e.Name)) {
		return f.Image.Add(e, r)
	}
	<-f.full
	close(f.refuses)
	return errFull
}

// TestRehearsalAndFullStore has the store refuse what is added while a rehearsal is under way: the
// suspend fails with the store's reason, the session runs on, and nothing is left.
func TestRehearsalAndFullStore(t *testing.T) {
	t.Parallel()
	for _, way := range []driver.Way{driver.WayMemory, driver.WayStream} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			s := begin(t, openWay(t, t.TempDir(), way, 0), "store", counting)
			count(t, s.d, s.uid)
			held := s.holds()
			for _, at := range rehearsalPoints {
				sink := &fullSink{full: make(chan struct{}), refuses: make(chan struct{})}
				if err := s.stoppedInto(limited(t), sink, at, func(int) { close(sink.full); <-sink.refuses }); !errors.Is(err, errFull) {
					t.Errorf("with a store that is full at %s it ends with %v", at, err)
				}
				count(t, s.d, s.uid)
				s.nothingLeft()
				s.holdsOnly(held)
			}
			s.cycle()
			count(t, s.d, s.uid)
		})
	}
}

// TestRehearsalKilled has the criu of a rehearsal, its copies and all of them killed at each
// moment: the suspend fails or not, the session runs on, and nothing is left.
func TestRehearsalKilled(t *testing.T) {
	t.Parallel()
	rounds := 2
	if os.Getenv("DIAPAUSE_LONG") != "" {
		rounds = 20
	}
	s := begin(t, open(t, t.TempDir()), "killed", schemas.Spec{Command: []string{"/bin/sh", "-c", "sleep 1000 & sleep 1001 & " + counting.Command[2]}})
	count(t, s.d, s.uid)
	if _, _, err := s.rehearse(schemas.RehearseAlways); err != nil {
		t.Fatal(err)
	}
	if err := s.d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	held := s.holds()
	kill := func(which string) (killed int) {
		for pid, command := range s.inGroup() {
			if isCriu := strings.Contains(command, "criu swrk"); which == "all" || isCriu == (which == "criu") {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended by itself
				killed++
			}
		}
		return killed
	}
	after := func(when string, err error) {
		t.Helper()
		if err == nil {
			if err := s.d.Thaw(limited(t), s.next()); err != nil {
				t.Fatal(err)
			}
		} else if driver.KindOf(err) == driver.Broken {
			t.Errorf("%s it ends with %v", when, err)
		}
		count(t, s.d, s.uid)
		s.nothingLeft()
		s.holdsOnly(held)
	}
	for _, which := range []string{"criu", "copy", "all"} {
		err := s.stoppedAt(limited(t), failpoint.ShimRehearsed, func(int) { kill(which) })
		after(which+" killed while it stands", err)
		for range rounds { // as soon as there is something, in the middle of the restore
			ended := make(chan error, 1)
			go func() {
				_, _, err := s.rehearse(schemas.RehearseAlways)
				ended <- err
			}()
			var err error
			for killed, over := 0, false; !over; {
				if killed == 0 {
					killed = kill(which)
				}
				select {
				case err = <-ended:
					over = true
				default:
				}
			}
			after(which+" killed in the restore", err)
		}
	}
}

// holds counts what the session's shim holds, by kind.
func (s *session) holds() map[string]int {
	s.t.Helper()
	pid := s.shimPID()
	all := map[string]int{}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		kind, _, _ := strings.Cut(to, ":[")
		all[kind]++
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		s.t.Fatal(err)
	}
	all["mounts"] = strings.Count(string(mounts), "\n")
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		s.t.Fatal(err)
	}
	own, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task + "/children") // of a thread that has ended there is none
		all["children"] += len(strings.Fields(string(b)))
		if net, err := os.Readlink(task + "/ns/net"); err == nil && net != own {
			all["other networks"]++
		}
	}
	return all
}

// holdsOnly looks that the session's shim holds no more than it did, once its threads have
// ended.
func (s *session) holdsOnly(before map[string]int) {
	s.t.Helper()
	for deadline := time.Now().Add(drivertest.Limit); ; time.Sleep(time.Millisecond) {
		more := ""
		for kind, n := range s.holds() {
			if n > before[kind] {
				more += fmt.Sprintf(" %s: %d instead of %d;", kind, n, before[kind])
			}
		}
		if more == "" {
			return
		}
		if time.Now().After(deadline) {
			out, _ := exec.Command("ps", "-o", "pid,ppid,stat,args", "--ppid", strconv.Itoa(s.shimPID())).Output()
			s.t.Fatalf("the shim still holds%s\n%s", more, out)
		}
	}
}
