package fake

import (
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Fence freezes a session, as its shim does by itself when the lease of its host
// has run out.
func (d *Driver) Fence(uid schemas.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, ok := d.sessions[uid]; ok && t.state != driver.Exited {
		t.state, t.fenced = driver.Frozen, true
	}
}
