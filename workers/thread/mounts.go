package thread

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Mounts calls f on a thread with a mount namespace of its own, which ends when f returns: no other
// process sees what f mounts there, nor do goroutines that f starts.
func Mounts(f func() error) error {
	return Discard(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make its mounts private: %w", err)
		}
		return f()
	})
}
