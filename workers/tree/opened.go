package tree

import "context"

// Opened remembers what processes have open, so that several questions about them list it
// once: for many thousand descriptors that takes most of the time. It is for one goroutine
// and one moment. Nil asks the kernel each time.
type Opened struct {
	fds     map[int][]FD
	watches []Watch
	watched bool
}

// NewOpened knows nothing yet.
func NewOpened() *Opened { return &Opened{fds: map[int][]FD{}} }

// FDs is the function of that name.
func (o *Opened) FDs(pid int) ([]FD, error) {
	if o == nil {
		return FDs(pid)
	}
	if all, ok := o.fds[pid]; ok {
		return all, nil
	}
	all, err := FDs(pid)
	if err == nil {
		o.fds[pid] = all
	}
	return all, err
}

// Connections is the function of that name.
func Connections(pids []int) ([]Connection, error) { return (*Opened)(nil).Connections(pids) }

// TCP is the function of that name.
func TCP(pids []int) ([]Connection, []uint16, error) { return (*Opened)(nil).TCP(pids) }

// Files is the function of that name.
func Files(pids []int, root string) ([]File, error) { return (*Opened)(nil).Files(pids, root) }

// Watches is the function of that name. It remembers the answer, too.
func Watches(ctx context.Context, pids []int) ([]Watch, error) {
	return (*Opened)(nil).Watches(ctx, pids)
}
