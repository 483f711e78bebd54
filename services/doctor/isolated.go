package doctor

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// isolated calls f on a thread with a mount namespace of its own, which ends with
// the thread: no other process sees what f mounts there, and it is gone when f
// returns. f starts no goroutine that uses the mounts.
func isolated(f func() error) error {
	done := make(chan error)
	go isolate(f, done)
	return <-done
}

func isolate(f func() error, done chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread is what /proc/self shows, and lives on: it waits here
		// while another one is used.
		other := make(chan error)
		go isolate(f, other)
		err := <-other
		runtime.UnlockOSThread()
		done <- err
		return
	}
	// Never unlocked: the thread ends with the goroutine.
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err != nil {
		err = fmt.Errorf("make a mount namespace: %w", err)
	}
	if err == nil {
		if err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			err = fmt.Errorf("make its mounts private: %w", err)
		}
	}
	if err == nil {
		err = f()
	}
	done <- err
}
