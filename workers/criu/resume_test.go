package criu

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// TestEndsAtOnce has a session whose command ends with its first instructions
// after a resume, while criu still holds it.
func TestEndsAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/bin/sh", "-c",
		`while read -r x < /run/diapause/generation; do case $x in *resume*) exit 3;; esac; done; exit 4`}})
	img := s.suspend()
	for range 5 {
		s.resume(img, schemas.BootResume)
		for ctx := limited(t); ; {
			i, err := d.Inspect(ctx, s.uid)
			if err != nil {
				t.Fatal(err)
			}
			if i.State != driver.Exited {
				continue
			}
			if i.Exit.Code != 3 {
				t.Errorf("it ended with %+v, want 3", i.Exit)
			}
			break
		}
		if err := d.Stop(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPortTaken resumes a session that listens where another program does by
// now.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/usr/bin/perl", "-e", `use IO::Socket::INET; $| = 1;
		my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 5) or die; print "port ", $l->sockport, " end\n"; sleep 1 while 1`}})
	s.want("end")
	_, port, _ := strings.Cut(output(t, d, s.uid), "port ")
	port, _, _ = strings.Cut(port, " ")
	img := s.suspend()
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Restore(limited(t), s.next(), s.spec, img, schemas.BootResume, drivertest.Begin)
	if want := fmt.Sprintf("127.0.0.1:%s is in use on this host by %s (process %d)", port, ownName(t), os.Getpid()); err == nil || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("a resume with its port taken gives %v, want %q", err, want)
	}
	l.Close()
	s.resume(img, schemas.BootResume)
}

// ownName is the name that the kernel has for this program.
func ownName(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
