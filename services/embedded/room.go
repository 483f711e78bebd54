package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
)

// What stays free on the disk of the streams for what is recorded: below it no activity
// without credentials is taken. Files of sessions stop at more (see workers/layer/ext4): a
// session that fills its disk silences no other.
const (
	reserveMost  = 256 << 20 // bytes
	reserveShare = 25        // one in so many
)

// A disk that has much room is looked at less often: it takes a while to fill it, even at fillRate.
const (
	lookSoonest = time.Second
	lookLatest  = 10 * time.Second
	fillRate    = 1 << 30 // bytes a second
)

// nextLook is when a disk with so much free is looked at again.
func nextLook(free int64) time.Duration {
	return min(max(time.Duration(free/(fillRate/1000))*time.Millisecond, lookSoonest), lookLatest)
}

// errNearlyFull is why clients without credentials are refused.
var errNearlyFull = errors.New("the disk is nearly full: activity without credentials isn't taken")

// room watches the disk of the streams, and has those refused who may fill it without limit.
// A write that finds the disk full stops the server (see reserve), so it is theirs that end before.
type room struct {
	look    func() (size, free int64, err error) // of the disk, in bytes
	refuse  func(why error)                      // of the gate for clients without credentials
	reserve func() error                         // keeps the reserve, if there is room for it
	log     *slog.Logger
	lost    <-chan struct{} // a token when the server has dropped activity
	intake  chan bool       // the last change; one place
	refused bool
}

func newRoom(dir string, refuse func(error), reserve func() error, log *slog.Logger) *room {
	return &room{look: func() (int64, int64, error) { return diskOf(dir) }, refuse: refuse, reserve: reserve, log: log, intake: make(chan bool, 1)}
}

// diskOf gives the size of the disk that a directory is on, and what root may still write.
func diskOf(dir string) (size, free int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("look for free space in %s: %w", dir, err)
	}
	return int64(fs.Blocks) * fs.Bsize, int64(fs.Bfree) * fs.Bsize, nil
}

// watch checks until ctx ends.
func (r *room) watch(ctx context.Context) {
	timer := time.NewTimer(lookSoonest)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(r.check())
		case <-r.lost:
			if !r.refused { // else what was dropped is known to be lost
				r.tell()
			}
		case <-ctx.Done():
			return
		}
	}
}

// check refuses clients, or takes them again once there is half as much more than it needs: a
// disk on the edge doesn't change it every second. It gives when to check again.
func (r *room) check() (next time.Duration) {
	size, free, err := r.look()
	if err != nil {
		r.log.Debug("how full the disk is isn't known", "err", err)
		return lookSoonest
	}
	least := min(reserveMost, size/reserveShare)
	if free >= least+least/2 {
		if err := r.reserve(); err != nil {
			r.log.Debug("there is no reserve for records", "err", err)
		}
	}
	switch {
	case !r.refused && free < least:
		r.refuse(errNearlyFull)
		r.log.Warn("the disk is nearly full: activity without credentials isn't taken, and no idle session is suspended, until there is room", "free", free, "least", least)
	case r.refused && free >= least+least/2:
		r.refuse(nil)
		r.log.Warn("the disk has room: activity without credentials is taken again", "free", free)
	default:
		return nextLook(free - least)
	}
	r.refused = !r.refused
	r.tell()
	return lookSoonest
}

// tell delivers whether activity is taken. That it is again says, too, that some was not.
func (r *room) tell() {
	select {
	case <-r.intake: // the change before, which wasn't read
	default:
	}
	r.intake <- !r.refused
}
