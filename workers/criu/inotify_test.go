package criu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// TestInotify watches a directory and a file of the session's root, an overlay,
// by which the kernel gives criu no handle, over two suspends.
func TestInotify(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "s", answering(
		`my ($dir, $file) = ("/tmp/watched", "/tmp/file"); mkdir $dir; open(my $x, ">", $file) or die;
		 my $i = syscall(294, 2048); syscall(254, $i, $dir, 0x100) > 0 or die; syscall(254, $i, $file, 2) > 0 or die;
		 open(my $events, "<&=", $i) or die;`,
		`open(my $new, ">", "$dir/$line") or die; open(my $f, ">>", $file) or die; print $f "x"; close $f;
		 sysread($events, my $b, 4096); my @seen = unpack("l L L L A16 l L L L", $b // ""); "@seen[1, 4, 6]"`))
	s.want("ready")
	for _, n := range []string{"1", "2"} {
		s.cycle()
		if got, want := s.ask(n, "name"+n), "256 name"+n+" 2"; got != want {
			t.Errorf("after a resume it is told %q, want %q: a file made, one changed", got, want)
		}
	}
}

// TestWatchedFileGoes has what a session watches renamed or removed between the look at it and
// the freeze: criu is told the new path, or the suspend fails by name and the session runs on.
func TestWatchedFileGoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(from, to string) error
		want   string
	}{
		"renamed": {change: os.Rename},
		"removed": {change: func(from, _ string) error { return os.Remove(from) }, want: "watches what has gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, t.TempDir())
			s := begin(t, d, "s", answering(
				`open(my $held, ">>", "/tmp/file") or die; my $i = syscall(294, 2048); my $name = "/tmp/file"; syscall(254, $i, $name, 2) > 0 or die;
				 open(my $events, "<&=", $i) or die;`,
				`syswrite($held, "x"); sysread($events, my $b, 4096); (unpack("l L L L", $b // ""))[1]`))
			s.want("ready")
			i, err := d.Inspect(limited(t), s.uid)
			if err != nil {
				t.Fatal(err)
			}
			tmp := fmt.Sprintf("/proc/%d/root/tmp/", i.PID)
			marks := t.TempDir()
			if d.options.Failpoints, err = failpoint.Parse(fmt.Sprintf("%s=stop;once=%s", failpoint.ShimLooked, marks)); err != nil {
				t.Fatal(err)
			}
			img, done := &drivertest.Image{}, make(chan error, 1)
			go func() {
				_, err := d.Capture(limited(t), s.next(), img)
				done <- err
			}()
			stopped := s.stoppedShim(t, filepath.Join(marks, string(failpoint.ShimLooked)+"@1"))
			if err := c.change(tmp+"file", tmp+"other"); err != nil {
				t.Error(err)
			}
			if err := unix.Kill(stopped, unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			err = <-done
			if c.want != "" {
				if err == nil || driver.KindOf(err) != driver.Transient || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Capture gives %v, of kind %s, want %q", err, driver.KindOf(err), c.want)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Stop(limited(t), s.next()); err != nil {
					t.Fatal(err)
				}
				s.resume(img, schemas.BootResume)
			}
			if got := s.ask("1", "question"); got != "2" {
				t.Errorf("it is told %q of a change, want 2", got)
			}
		})
	}
}
