package criu

import (
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// TestChangedPrivateNetwork has a session change its own network: the suspend warns, and the resume makes
// the network as it was, of which nothing is told.
func TestChangedPrivateNetwork(t *testing.T) {
	t.Parallel()
	spec := private("", `"ok"`)
	spec.CapAdd = []string{"NET_ADMIN"}
	s := begin(t, open(t, t.TempDir()), "s", spec)
	s.want("ready")
	told := func(warnings []schemas.Warning) []string {
		var all []string
		for _, w := range warnings {
			if w.Subject == "network" {
				all = append(all, w.Text)
			}
		}
		return all
	}
	mtu := func(call string) string {
		return s.sh(`python3 -c 'import fcntl, socket, struct; print(struct.unpack("16si12x", fcntl.ioctl(socket.socket(), ` + call + `))[1])'`)
	}
	first := mtu(`0x8921, struct.pack("16s16x", b"eth0")`) // SIOCGIFMTU
	mtu(`0x8922, struct.pack("16si12x", b"eth0", 1300)`)   // SIOCSIFMTU
	img, c := s.capture()
	got := told(c.Warnings)
	if len(got) != 1 || !strings.Contains(got[0], "interface eth0 (up, mtu 1300)") {
		t.Errorf("the suspend warns %q, want a warning of the interface's mtu alone", got)
	}
	if err := s.d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	s.resume(img, schemas.BootResume)
	if now := mtu(`0x8921, struct.pack("16s16x", b"eth0")`); now != first {
		t.Errorf("the mtu is %q after the resume, want %q as at first: the warning is wrong", now, first)
	}
	if _, c := s.capture(); len(told(c.Warnings)) > 0 {
		t.Errorf("the suspend after a resume warns %q, and nothing was changed since", told(c.Warnings))
	}
}
