package criu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/layer/ext4"
	"github.com/diapause/diapause/workers/shim"
)

// The sessions' layers share the room on the data directory's disk. A shim bounds its layer
// when it mounts it; later the driver does, as the room changes.
//
// Much room is looked at less often: it takes a while to fill it, even at roomRate.
const (
	roomLook  = time.Second
	roomRare  = 10 * time.Second
	roomRate  = 2 << 30  // bytes a second
	roomMoved = 16 << 20 // bytes by which free space changes before layers are looked at
	roomStale = 30 * time.Second
)

// keepRoom bounds the layers until ctx ends.
func (d *Driver) keepRoom(ctx context.Context) {
	look := time.NewTimer(roomLook)
	defer look.Stop()
	var before int64
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		room, err := ext4.Room(d.dir.sessions)
		look.Reset(min(max(time.Duration(room/roomRate)*time.Second, roomLook), roomRare))
		if err != nil || max(room-before, before-room) < roomMoved && time.Since(last) < roomStale {
			continue
		}
		d.boundLayers(room)
		before, last = room, time.Now()
	}
}

// boundLayers gives each layer what isn't promised. One whose session is just starting or
// ending is left out.
func (d *Driver) boundLayers(room int64) {
	entries, err := os.ReadDir(d.dir.sessions)
	if err != nil {
		return // the next look tries again
	}
	var mounted []string
	for _, e := range entries {
		uid := schemas.UID(e.Name())
		state, err := d.shims.readState(uid)
		if err != nil || state.Exit != nil {
			continue
		}
		// In the shim's mount namespace.
		at := filepath.Join(fmt.Sprintf("/proc/%d/root", state.Shim), shim.LayerMount(d.dir.session(uid)))
		promised, err := ext4.Promised(at, shim.LayerPath(d.dir.session(uid)))
		if err != nil {
			continue // its layer is a directory
		}
		room -= promised
		mounted = append(mounted, at)
	}
	for _, at := range mounted {
		_ = ext4.Bound(at, max(room, 0))
	}
}
