package criu

import (
	"fmt"
	"math"
	"path"
	"sync"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/tree"
)

// budget shares the host's free memory among captures and restores: what is free now
// isn't free for the next one.
type budget struct {
	options   *Options
	hierarchy *cgroup.Hierarchy

	mu  sync.Mutex
	sum int64 // bytes that those under way may take
}

// take reserves need until release is called, and returns what others have reserved. What
// they have taken already counts twice by that: in doubt an image is streamed.
func (b *budget) take(need int64) (others int64, release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	others = b.sum
	b.sum += need
	return others, sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sum -= need
	})
}

// ownMargin is what a buffer leaves free of this process's own limit, in bytes.
const ownMargin = 64 << 20

// ahead is the most that a stream may run ahead of its image within this process's
// own limit of memory: the shim has looked at the session's and the machine's.
func (b *budget) ahead() (int64, error) {
	room, limited, err := b.hierarchy.OwnRoom()
	if err != nil || !limited {
		return math.MaxInt64, err
	}
	return max(room-ownMargin, 0), nil
}

// forCapture notes what a capture of the session may take in memory.
func (b *budget) forCapture(uid schemas.UID) (others int64, release func(), err error) {
	if b.options.Way == driver.WayStream {
		return 0, func() {}, nil
	}
	group, ok := b.hierarchy.Group(shim.SessionGroup(uid))
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
	others, release = b.take(need)
	return others, release, nil
}

// leastKept is how much of a stream's pages may be kept until they are needed again, in bytes,
// however little memory there is.
const leastKept = 64 << 20

// keep is how much of a stream's pages may be kept until they are needed again, where so much
// memory is left beside the session, in bytes.
func (b *budget) keep(size, left int64) (int64, error) {
	own, err := b.ahead()
	return max(min(size, left-ownMargin, own/2), leastKept), err
}

// streamedFrom is from what size on a resume is a stream, however much memory there is, in
// bytes. Measured on two cores: 64 MiB came back in 0.34 s as a stream and in 0.30 s by memory,
// 512 MiB in 0.9 s and 1.6 s, 2 GiB in 2.8 s and 6.7 s.
const streamedFrom = 64 << 20

// forRestore lists criu's images that go from source to criu without being put into
// memory before: none if that is no slower and there is room, which is promised until release
// is called.
func (b *budget) forRestore(uid schemas.UID, source driver.Source) (served []string, release func(), err error) {
	names, size := large(source)
	group, ok := b.hierarchy.Group(shim.ShimGroup(uid))
	if !ok {
		return nil, nil, fmt.Errorf("the cgroup of session %s is gone", uid)
	}
	free, err := shim.Free(group, b.options.Room)
	if err != nil {
		return nil, nil, err
	}
	order, ordered := source.(driver.Sequencer)
	inOrder := make([]string, len(names))
	for i, name := range names {
		inOrder[i] = path.Join(partCriu, name)
	}
	// In memory it is there twice before criu has ended, as a stream once.
	others, release := b.take(2 * size)
	way, _, _ := shim.Plan(b.options.Way, 2*size, free-others)
	if b.options.Way == driver.WayAuto && size >= streamedFrom && ordered && order.Kept(inOrder) <= leastKept {
		way = driver.WayStream
	}
	if way != driver.WayStream {
		return nil, release, nil
	}
	release()
	keep, err := b.keep(size, free-others-size)
	if err != nil {
		return nil, nil, err
	}
	_, release = b.take(size + keep)
	if ordered {
		order.Sequence(inOrder, keep)
	}
	return names, release, nil
}
