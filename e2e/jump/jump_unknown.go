//go:build !amd64

package jump

import (
	"errors"
	"time"
)

// Known says whether this machine's instructions are known here.
const Known = false

var errUnknown = errors.New("only amd64 is known here")

// Clock is the wall clock of one process.
type Clock struct{}

// Of fails.
func Of(string, int) (*Clock, error) { return nil, errUnknown }

// Set fails.
func (*Clock) Set(time.Duration) error { return errUnknown }

// Close does nothing.
func (*Clock) Close() error { return nil }

// Disk is the disk as one process sees it.
type Disk struct{}

// DiskOf fails.
func DiskOf(string, int) (*Disk, error) { return nil, errUnknown }

// Set fails.
func (*Disk) Set(time.Duration) error { return errUnknown }

// Close does nothing.
func (*Disk) Close() error { return nil }
