package thread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Discard calls f on a thread of its own, which ends when f returns, and gives f's error.
// What f changes of its thread, no other goroutine sees; those that f starts run on other
// threads.
func Discard(f func() error) error {
	done := make(chan error)
	go discard(f, done)
	return <-done
}

func discard(f func() error, done chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// Held here, the first thread can't be the one that runs the next goroutine.
		done <- Discard(f)
		runtime.UnlockOSThread()
		return
	}
	// Never unlocked: the thread ends with the goroutine.
	done <- f()
}
