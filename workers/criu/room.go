package criu

import (
	"fmt"
	"math"
	"sync"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/tree"
)

// promises are the memory that captures and restores under way may take: what is
// free now isn't free for the next one.
type promises struct {
	mu  sync.Mutex
	sum int64 // bytes
}

// take notes need until release is called, and gives what the others have. What
// they take already counts twice by that: in doubt an image is streamed.
func (p *promises) take(need int64) (others int64, release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	others = p.sum
	p.sum += need
	return others, sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sum -= need
	})
}

// ownMargin is what a buffer leaves free of this process's own limit, in bytes.
const ownMargin = 64 << 20

// ahead is the most that a stream may run ahead of its image within this process's
// own limit of memory: the shim has looked at the session's and the machine's.
func (d *Driver) ahead() (int64, error) {
	room, limited, err := d.hierarchy.OwnRoom()
	if err != nil || !limited {
		return math.MaxInt64, err
	}
	return max(room-ownMargin, 0), nil
}

// promise notes what a capture of the session may take in memory.
func (d *Driver) promise(uid schemas.UID) (others int64, release func(), err error) {
	if d.options.Way == driver.WayStream {
		return 0, func() {}, nil
	}
	group, ok := d.hierarchy.Group(shim.SessionGroup(uid))
	if !ok {
		return 0, nil, fmt.Errorf("%w: its cgroup is gone", driver.ErrNotHere)
	}
	pids, err := group.Pids()
	if err != nil {
		return 0, nil, fmt.Errorf("list the processes of session %s: %w", uid, err)
	}
	need, err := tree.Dumpable(pids)
	if err != nil {
		return 0, nil, err
	}
	others, release = d.promises.take(need)
	return others, release, nil
}
