package shim

import (
	"math"
	"testing"

	"github.com/diapause/diapause/workers/driver"
)

func TestPlan(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name       string
		forced     driver.Way
		need, free int64
		want       driver.Way
		limit      int64
	}{
		{"room for ten", driver.WayAuto, gib, 10 * gib, driver.WayBuffered, 10*gib - margin},
		{"small, and room for it", driver.WayAuto, small, 10 * gib, driver.WayMemory, 10*gib - margin},
		{"small, and no room", driver.WayAuto, small, small, driver.WayStream, 0},
		{"room for it and the margin, just so", driver.WayAuto, gib, gib + margin, driver.WayBuffered, gib},
		{"the margin is touched", driver.WayAuto, gib, gib + margin - 1, driver.WayStream, 0},
		{"no room", driver.WayAuto, gib, 10 << 20, driver.WayStream, 0},
		{"less than no room", driver.WayAuto, gib, -5, driver.WayStream, 0},
		{"no known limit", driver.WayAuto, gib, math.MaxInt64, driver.WayBuffered, math.MaxInt64 - margin},
		{"by hand, without room", driver.WayMemory, gib, 0, driver.WayMemory, 0},
		{"buffered by hand", driver.WayBuffered, gib, 2 * margin, driver.WayBuffered, margin},
		{"by hand, with room", driver.WayStream, gib, 10 * gib, driver.WayStream, 0},
		{"an older worker, without room", "", gib, 0, driver.WayMemory, 0},
	} {
		way, limit, why := Plan(c.forced, c.need, c.free)
		if way != c.want || limit != c.limit || why == "" {
			t.Errorf("%s: %s, limit %d, because %q; want %s, %d", c.name, way, limit, why, c.want, c.limit)
		}
	}
}

func TestLarge(t *testing.T) {
	for name, want := range map[string]bool{
		"pages-1.img": true, "ghost-file-3.img": true, "tmpfs-dev-42.tar.gz.img": true, "tmpfs-7.tar.gz.img": true,
		"pagemap-1.img": false, "core-1.img": false, "inventory.img": false, "pages": false, "": false,
	} {
		if Large(name) != want {
			t.Errorf("Large(%q) is %t", name, !want)
		}
	}
}
