package criu

import (
	"os"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	var p budget
	if others, _ := p.take(10); others != 0 {
		t.Errorf("the first one finds %d promised", others)
	}
	others, release := p.take(5)
	if others != 10 {
		t.Errorf("the second one finds %d promised", others)
	}
	release()
	release() // once more does nothing
	if others, _ := p.take(1); others != 10 {
		t.Errorf("the third one finds %d promised", others)
	}
}

// TestRoomIsPromisedOnce has room for the image of one session, not of two: while
// the first is captured, the second is streamed.
func TestRoomIsPromisedOnce(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	const size, room = 24, 48 << 20
	d := openWay(t, t.TempDir(), driver.WayAuto, room)
	first, second := begin(t, d, "first", holding(size)), begin(t, d, "second", holding(size))
	first.want("ready")
	second.want("ready")
	var other driver.Captured
	captured := false
	c, err := d.Capture(limited(t), first.next(), &drivertest.Image{Fail: func(e image.Entry) error {
		if !captured {
			captured = true
			_, other = second.capture()
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Way != driver.WayMemory {
		t.Errorf("the first one's way is %s, because %s", c.Way, c.WhyWay)
	}
	if other.Way != driver.WayStream || !strings.Contains(other.WhyWay, "no room") {
		t.Errorf("the second one's way is %s, because %s", other.Way, other.WhyWay)
	}
	if _, again := second.capture(); again.Way != driver.WayMemory {
		t.Errorf("afterwards the second one's way is %s, because %s", again.Way, again.WhyWay)
	}
}
