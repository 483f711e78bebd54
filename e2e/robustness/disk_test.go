package robustness_test

import (
	"errors"
	"os"
	"time"

	"github.com/diapause/diapause/e2e/jump"
)

// slowDisk has what a process syncs take longer, until undo.
func (p *process) slowDisk(longer time.Duration) (undo func() error, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return func() error { return nil }, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	disk, err := jump.DiskOf(self, p.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(disk.Set(0), disk.Close()) }, disk.Set(longer)
}
