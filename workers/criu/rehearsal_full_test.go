package criu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// TestCaptureOnFullDisk has the data directory's disk filled up by others before a session is
// captured that has written files: the suspend is refused with the reason, and the session runs on. With
// room again it is captured, and has what it wrote.
func TestCaptureOnFullDisk(t *testing.T) {
	t.Parallel()
	data := small(t, "100m")
	s := begin(t, open(t, data), "full", counting)
	count(t, s.d, s.uid)
	s.sh("head -c 3M /dev/urandom > /srv/written; sha256sum /srv/written > /srv/sum")
	fill(t, data)
	for range 2 {
		_, _, err := s.rehearse(schemas.RehearseAlways)
		if err == nil {
			t.Fatal("the layer was captured though the disk had no room for it")
		}
		text, hint := driver.HintOf(err)
		if driver.KindOf(err) != driver.Refused || !strings.Contains(text, "the data directory's disk is full") || !strings.Contains(hint, "free room on it") {
			t.Errorf("on a full disk it ends with %v, of kind %s", err, driver.KindOf(err))
		}
		count(t, s.d, s.uid)
		s.nothingLeft()
	}
	if err := os.Remove(filepath.Join(data, "rest")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.rehearse(schemas.RehearseAlways); err != nil {
		t.Fatal(err)
	}
	if err := s.d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	s.cycle()
	if got := s.sh("sha256sum -c /srv/sum"); !strings.Contains(got, "OK") {
		t.Errorf("after a resume its file is %s", got)
	}
	count(t, s.d, s.uid)
}

// TestRehearsalOnFullDisk has the data directory's disk become full while a rehearsal is about to
// start: it writes nothing there, and passes.
func TestRehearsalOnFullDisk(t *testing.T) {
	t.Parallel()
	data := small(t, "100m")
	s := begin(t, open(t, data), "full", counting)
	count(t, s.d, s.uid)
	for _, at := range rehearsalPoints {
		if err := s.stoppedAt(limited(t), at, func(int) { fill(t, data) }); err != nil {
			t.Errorf("with a disk that became full at %s it ends with %v", at, err)
		} else if err := s.d.Thaw(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		count(t, s.d, s.uid)
		s.nothingLeft()
		if err := os.Remove(filepath.Join(data, "rest")); err != nil {
			t.Fatal(err)
		}
	}
	img, _, err := s.rehearse(schemas.RehearseAlways)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	s.resume(img, schemas.BootResume)
	count(t, s.d, s.uid)
}
