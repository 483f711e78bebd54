package criu

import (
	"testing"

	"github.com/diapause/diapause/events/attach"
)

// A job that was stopped by Ctrl-Z survives captures that run on, and ones that
// are resumed, stopped; then it comes to the foreground.
func TestStoppedJob(t *testing.T) {
	d := open(t, t.TempDir())
	s := shell(t, d)
	k := attachTo(t, d, s, attach.Size{})
	k.press("cat\n")
	foreground(t, s, "cat")
	k.press("\x1a")
	s.want("Stopped")
	s.capture()
	if err := d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	k.press("echo jobs:$(jobs -s | wc -l):$((1+1))\n")
	s.want("jobs:1:2")
	s.suspend2(k)
	s.cycle()
	k = attachTo(t, d, s, attach.Size{})
	k.press("echo jobs:$(jobs -s | wc -l):$((1+2))\n")
	s.want("jobs:1:3")
	k.press("fg\n")
	foreground(t, s, "cat")
	k.press("goes on\n")
	s.want("goes on\r\ngoes on\r\n")
}
