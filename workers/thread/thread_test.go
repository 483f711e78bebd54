package thread

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The main goroutine stays on the process's first thread.
func init() { runtime.LockOSThread() }

// fromFirst is what discard does on the first thread.
var fromFirst struct {
	thread, tid int
	err         error
}

func TestMain(m *testing.M) {
	done := make(chan error, 1)
	fromFirst.thread = unix.Gettid()
	discard(func() error {
		fromFirst.tid = unix.Gettid()
		return errors.New("its error")
	}, done)
	fromFirst.err = <-done
	os.Exit(m.Run())
}

func TestFirstThreadIsNeverUsed(t *testing.T) {
	if fromFirst.thread != os.Getpid() {
		t.Fatalf("the main goroutine ran on thread %d of process %d", fromFirst.thread, os.Getpid())
	}
	if fromFirst.tid == 0 || fromFirst.tid == os.Getpid() {
		t.Errorf("it ran on thread %d of process %d", fromFirst.tid, os.Getpid())
	}
	if fromFirst.err == nil || fromFirst.err.Error() != "its error" {
		t.Errorf("it gives %v", fromFirst.err)
	}
}

// A thread is gone after it was used. The kernel removes it a moment after the goroutine's
// end, so that is awaited.
func TestThreadEnds(t *testing.T) {
	var tid int
	if err := Discard(func() error { tid = unix.Gettid(); return nil }); err != nil {
		t.Fatal(err)
	}
	for task := fmt.Sprintf("/proc/self/task/%d", tid); ; runtime.Gosched() {
		if _, err := os.Stat(task); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
}
