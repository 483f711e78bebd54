package criu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

func TestDataDirectoryIsOutOfReach(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "key"), []byte("AGE-SECRET-KEY"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, data)
	s := begin(t, d, "s", counting)
	try := func() {
		t.Helper()
		for _, script := range []string{
			"cat " + data + "/key",
			"ls " + data + "/run/*",
			"umount " + data,
			"mount -t tmpfs none /mnt",
			"mount --bind / /mnt",
			"mknod /tmp/disk b 254 0",
			"mknod /dev/disk b 254 0",
			"echo x > /proc/sysrq-trigger",
			"echo x > /proc/sys/kernel/core_pattern",
			"head -c 1 /proc/kcore | grep .",
			"nsenter -t 1 -m -p true && umount " + data,
			"unshare -m sh -c 'umount " + data + " && cat " + data + "/key'",
			"unshare -Urm sh -c 'umount " + data + " && cat " + data + "/key'",
			"for p in /proc/[0-9]*; do cat $p/root" + data + "/key && exit 0; done; exit 1",
			"date -s 2001-01-01",
			"chroot /proc/1/root cat " + data + "/key",
		} {
			out, exit := request(t, d, "s", shimExec("/bin/sh", "-c", script), "")
			if exit.Code == 0 || strings.Contains(out, "AGE-SECRET") {
				t.Errorf("%s: exit %+v\n%s", script, exit, out)
			}
		}
		if fds := s.sh("ls -l /proc/1/fd /proc/self/fd | grep -c -- '->' "); fds == "" {
			t.Error("no descriptors")
		}
	}
	try()
	s.cycle()
	try()
}

// What is empty in /proc and /sys is one file system: CRIU runs tar for each at a dump and a restore.
func TestHiddenPathsAreOneFileSystem(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := begin(t, open(t, data), "s", counting)
	for range 2 {
		for _, path := range []string{data, "/sys/firmware", "/proc/acpi"} {
			if _, err := os.Stat(path); err != nil {
				continue // this machine hasn't it
			}
			if left := s.sh("ls -A " + path); left != "" {
				t.Errorf("%s has %s", path, left)
			}
			if path == data {
				continue // what a session makes there is in its own layer
			}
			if out, exit := request(t, s.d, s.uid, shimExec("/bin/sh", "-c", "touch "+path+"/x"), ""); exit.Code == 0 {
				t.Errorf("a file can be made in %s: %s", path, out)
			}
		}
		var archives []string
		for _, e := range s.cycle().Entries() {
			if strings.Contains(e.Name, "tmpfs-") {
				archives = append(archives, e.Name)
			}
		}
		if len(archives) > 4 { // of /dev, /dev/shm, /run, and what is hidden
			t.Errorf("the image has the archives %v", archives)
		}
	}
}

func TestNothingOfASessionIsOnDisk(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := open(t, data)
	secrets := []string{"secret-in-env-8471", "secret-in-args-1174", "secret-in-output-5525", "secret-in-memory-0387"}
	s := begin(t, d, "s", schemas.Spec{
		Env: []string{"TOKEN=" + secrets[0]},
		Command: []string{"/bin/sh", "-c",
			`x=secret-in-; y=memory-0387; z=$x$y; echo secret-in-output-5525; echo up; while :; do sleep 0.1; done`, secrets[1]},
	})
	s.want("up")
	look := func(when string) {
		t.Helper()
		err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			b, err := dataOf(path)
			for _, secret := range secrets {
				if bytes.Contains(b, []byte(secret)) {
					t.Errorf("%s: %s holds %s", when, path, secret)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("ps", "axeww", "-o", "pid,args").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "shim") && strings.Contains(line, "secret-in") {
				t.Errorf("%s: the shim's command line or environment holds a secret: %s", when, line)
			}
		}
	}
	look("while it runs")
	img := &drivertest.Image{}
	if _, err := d.Capture(limited(t), s.next(), img); err != nil {
		t.Fatal(err)
	}
	look("captured")
	for _, secret := range secrets {
		found := false
		for _, e := range img.Entries() {
			if b, _ := img.Content(e.Name); bytes.Contains(b, []byte(secret)) {
				found = true
			}
		}
		if !found {
			t.Errorf("the image lacks %s: this test looks for what isn't there", secret)
		}
	}
	if err := d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	look("stopped")
	s.resume(img, schemas.BootResume)
	look("resumed")
}

func TestNetworkNone(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	spec := counting
	spec.Network = "none"
	s := begin(t, open(t, t.TempDir()), "s", spec)
	script := fmt.Sprintf(`use IO::Socket::INET;
		my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1) or die "no loopback: $!";
		IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $l->sockport) or die "no way to itself: $!";
		IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => %d) and die "it reaches the host";
		open(my $dev, "<", "/proc/net/dev"); print grep { !/lo:|Inter|face/ } <$dev>;`, l.Addr().(*net.TCPAddr).Port)
	for range 2 {
		if out := s.run("/usr/bin/perl", "-e", script); out != "" {
			t.Errorf("it has the interfaces %s", out)
		}
		s.cycle()
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	spec := counting
	spec.Memory, spec.Pids, spec.CPUs = 64<<20, 20, 0.5
	s := begin(t, d, "s", spec)
	for range 2 {
		_, exit := request(t, d, "s", shimExec("/usr/bin/perl", "-e", `my $x = "x" x (200 << 20); print "got it"`), "")
		if exit.Signal != 9 {
			t.Errorf("a program that takes 200 MB of 64 MB ends with %+v", exit)
		}
		out := s.sh(`perl -e 'my $n = 0; my @p; for (1..40) { my $p = fork; last if !defined $p; if (!$p) { sleep 100; exit } push @p, $p; $n++ } kill 9, @p; wait for @p; print $n'`)
		if n, err := strconv.Atoi(out); err != nil || n < 1 || n > 20 {
			t.Errorf("it could fork %s times, with 20 processes allowed", out)
		}
		s.cycle()
	}
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	exits := d.Exits(ctx)
	hungry := schemas.Spec{Command: []string{"/usr/bin/perl", "-e", `my $x = "x" x (200 << 20); sleep 1000`}, Memory: 64 << 20}
	begin(t, d, "hungry", hungry)
	select {
	case i := <-exits:
		if i.UID != "hungry" || i.Exit == nil || i.Exit.Reason != "out of memory" || i.Exit.Signal != 9 {
			t.Errorf("the end of a session that ran out of memory is %+v, %+v", i, i.Exit)
		}
	case <-ctx.Done():
		t.Fatal("nothing is said of a session that ran out of memory")
	}
}

// TestRestoredTreeRunsNoInstruction has a session that tells the host of each
// step it makes; a restore that isn't allowed to go on must not make one.
func TestRestoredTreeRunsNoInstruction(t *testing.T) {
	t.Parallel()
	host, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/usr/bin/perl", "-e", fmt.Sprintf(`use IO::Socket::INET;
		my $s = IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.0.0.1", PeerPort => %d) or die;
		while (1) { $s->send("step"); select(undef, undef, undef, 0.001) }`, host.LocalAddr().(*net.UDPAddr).Port)}})
	step := func(wait time.Duration) bool {
		if err := host.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		_, _, err := host.ReadFrom(make([]byte, 64))
		return err == nil
	}
	if !step(drivertest.Limit) {
		t.Fatal("the session makes no step")
	}
	img := s.suspend()
	for step(10 * time.Millisecond) { // what was under way
	}
	no := errors.New("no")
	_, err = d.Restore(limited(t), s.next(), s.spec, img, schemas.BootResume, func(context.Context) error {
		if step(300 * time.Millisecond) {
			t.Error("the session made a step before it was allowed to")
		}
		return no
	})
	if !errors.Is(err, no) {
		t.Fatalf("Restore gives %v", err)
	}
	if step(300 * time.Millisecond) {
		t.Error("the session made a step though it was not allowed to")
	}
	s.resume(img, schemas.BootResume)
	if !step(drivertest.Limit) {
		t.Error("the session makes no step after its restore")
	}
}

// TestOtherUsers has a session that doesn't run as root. Where the machine lacks
// the capability for it, its capture is refused in words, and it runs on.
func TestOtherUsers(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	spec := counting
	spec.User = "daemon"
	s := begin(t, d, "s", spec)
	if got := s.sh("id -un; id -gn; touch /tmp/mine; stat -c %U /tmp/mine; echo $HOME"); got != "daemon\ndaemon\ndaemon\n/usr/sbin" {
		t.Errorf("a session of user daemon says %q", got)
	}
	before := count(t, d, "s")
	img := &drivertest.Image{}
	_, err := d.Capture(limited(t), s.next(), img)
	if has, capErr := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); capErr != nil || has == 0 {
		if driver.KindOf(err) != driver.Refused || err == nil || !strings.Contains(err.Error(), "CAP_SYS_RESOURCE") {
			t.Errorf("without CAP_SYS_RESOURCE a capture gives %v", err)
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
	if n := count(t, d, "s"); n <= before {
		t.Errorf("the session counts %d, %d before", n, before)
	}
}

func TestDataOnAnOverlay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	merged := filepath.Join(dir, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	})
	d := open(t, filepath.Join(merged, "data"))
	_, err := d.Start(limited(t), drivertest.Fence("s", 1), counting, drivertest.Begin)
	if driver.KindOf(err) != driver.Refused || err == nil || !strings.Contains(err.Error(), "put it on a disk or a volume") {
		t.Errorf("with its data on an overlay a session gives %v", err)
	}
}

// dataOf reads a file, and leaves out its holes.
func dataOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []byte
	for at := int64(0); ; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return all, nil
		}
		to, holeErr := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err := errors.Join(err, holeErr); err != nil {
			return nil, err
		}
		b := make([]byte, to-from)
		if _, err := f.ReadAt(b, from); err != nil {
			return nil, err
		}
		all, at = append(all, b...), to
	}
}
