package criu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

func streaming(t *testing.T, data string) *Driver {
	t.Helper()
	return openWay(t, data, driver.WayStream, 0)
}

// TestConformanceStreamed has the cases that capture and restore.
func TestConformanceStreamed(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	drivertest.Run(t, host(streaming), "capture and restore", "many cycles", "fork", "begin fails at restore",
		"thaw", "capture again", "sink fails", "context ends", "recover")
}

// holding is a session that has so many MiB of memory that no compression and no
// other page is like, and answers with what it holds: a digest.
func holding(mib int) schemas.Spec {
	return answering(fmt.Sprintf(`use Digest::MD5 "md5_hex"; open(my $r, "<", "/dev/urandom") or die; read($r, my $b, %d << 20);`, mib), `md5_hex($b)`)
}

// TestSessionLargerThanTheRoom has a session that doesn't fit into the memory that
// an image may take: it is streamed, both ways, and hardly anything of it is held.
func TestSessionLargerThanTheRoom(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	const size, room = 48, 24 << 20
	s := begin(t, openWay(t, t.TempDir(), driver.WayAuto, room), "s", holding(size))
	s.want("ready")
	before := s.ask("1", "digest")
	img, c := s.capture()
	if c.Way != driver.WayStream || !strings.Contains(c.WhyWay, "no room") {
		t.Errorf("the way is %s, because %s", c.Way, c.WhyWay)
	}
	if c.Held > 8<<20 {
		t.Errorf("a stream of %d MiB held %d bytes of them", size, c.Held)
	}
	pages := 0
	for _, e := range img.Entries() {
		if strings.HasPrefix(e.Name, "criu/pages-") {
			pages += int(e.Size)
		}
	}
	if pages < size<<20 {
		t.Errorf("the image has %d bytes of pages", pages)
	}
	if err := s.d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	i, err := s.d.Restore(limited(t), s.next(), s.spec, img, schemas.BootResume, drivertest.Begin)
	if err != nil {
		t.Fatal(err)
	}
	if i.Way != driver.WayStream {
		t.Errorf("it came back by way of %s", i.Way)
	}
	if after := s.ask("2", "digest"); after != before {
		t.Errorf("its memory has the digest %s, and had %s", after, before)
	}
}

// TestImageThatDoesNotFitAfterAll has what the estimate leaves out: a large file that has no
// name any more.
func TestImageThatDoesNotFitAfterAll(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	const room = 24 << 20
	spec := answering(`open(my $f, "+>", "/tmp/gone") or die; unlink "/tmp/gone";
		open(my $r, "<", "/dev/urandom") or die; for (1..40) { read($r, my $b, 1 << 20); syswrite($f, $b); } seek($f, 0, 0);`,
		`use Digest::MD5; seek($f, 0, 0); Digest::MD5->new->addfile($f)->hexdigest`)
	s := begin(t, openWay(t, t.TempDir(), driver.WayAuto, room), "s", spec)
	s.want("ready")
	before := s.ask("1", "digest")
	img, c := s.capture()
	if c.Way != driver.WayStream || !strings.Contains(c.WhyWay, "turned out") {
		t.Errorf("the way is %s, because %s", c.Way, c.WhyWay)
	}
	if err := s.d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	s.resume(img, schemas.BootResume)
	if after := s.ask("2", "digest"); after != before {
		t.Errorf("its file has the digest %s, and had %s", after, before)
	}
}

func TestWayIsForced(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	for _, c := range []struct {
		forced, want driver.Way
		room         int64
	}{
		{driver.WayMemory, driver.WayMemory, 4096},
		{driver.WayStream, driver.WayStream, 1 << 40},
		{driver.WayBuffered, driver.WayBuffered, 1 << 40},
		{driver.WayAuto, driver.WayMemory, 1 << 40},
		{"", driver.WayMemory, 1 << 40},
	} {
		s := begin(t, openWay(t, t.TempDir(), c.forced, c.room), "s", counting)
		img, got := s.capture()
		if got.Way != c.want || got.WhyWay == "" {
			t.Errorf("forced to %q the way is %s, because %q", c.forced, got.Way, got.WhyWay)
		}
		if err := s.d.Stop(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		i, err := s.d.Restore(limited(t), s.next(), s.spec, img, schemas.BootResume, drivertest.Begin)
		back := c.want
		if back == driver.WayBuffered {
			back = driver.WayMemory
		}
		if err != nil || i.Way != back {
			t.Errorf("forced to %q it comes back by way of %s, %v", c.forced, i.Way, err)
		}
		count(t, s.d, "s")
	}
}

// breaking is a sink that calls broken in the middle of an image that is streamed.
type breaking struct {
	drivertest.Image
	broken func() error
}

func (b *breaking) Add(e image.Entry, r io.Reader) error {
	if e.Size != -1 {
		return b.Image.Add(e, r)
	}
	if _, err := io.CopyN(io.Discard, r, 4096); err != nil {
		return err
	}
	return b.broken()
}

func TestStoreFailsInMidStream(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	s := begin(t, streaming(t, t.TempDir()), "s", holding(16))
	s.want("ready")
	before := s.ask("1", "digest")
	failed := errors.New("the store has no room")
	_, err := s.d.Capture(limited(t), s.next(), &breaking{broken: func() error { return failed }})
	if !errors.Is(err, failed) || strings.Contains(err.Error(), "shim") {
		t.Errorf("Capture gives %v, want what the store said and nothing that follows from it", err)
	}
	if i, err := s.d.Inspect(limited(t), "s"); err != nil || i.State != driver.Running {
		t.Errorf("after that the session is %+v, %v", i, err)
	}
	if after := s.ask("2", "digest"); after != before {
		t.Errorf("its memory has the digest %s, and had %s", after, before)
	}
	s.cycle()
	if after := s.ask("3", "digest"); after != before {
		t.Errorf("its memory has the digest %s, and had %s", after, before)
	}
}

// TestStoreStallsInMidStream gives the capture up while the store takes nothing.
func TestStoreStallsInMidStream(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	s := begin(t, streaming(t, t.TempDir()), "s", holding(16))
	s.want("ready")
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	_, err := s.d.Capture(ctx, s.next(), &breaking{broken: func() error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Capture gives %v", err)
	}
	if i, err := s.d.Inspect(limited(t), "s"); err != nil || i.State != driver.Running {
		t.Errorf("after that the session is %+v, %v", i, err)
	}
	s.ask("1", "digest")
	s.cycle()
	s.ask("2", "digest")
}

// roleStream is a worker that dies while criu streams.
const roleStream = "die-in-stream"

func init() {
	roles[roleStream] = func(t *tester, d *Driver) error {
		_, err := d.Capture(t.ctx, drivertest.Fence("s", 2), &breaking{broken: func() error {
			dieNow()
			return nil
		}})
		return err
	}
}

func TestWorkerKilledInMidStream(t *testing.T) {
	t.Parallel()
	d := streaming(t, t.TempDir())
	s := begin(t, d, "s", holding(16))
	s.want("ready")
	before := s.ask("1", "digest")
	die(t, d, roleStream)
	again := streaming(t, d.options.Data)
	// Only its shim thaws it.
	for ctx := limited(t); ; {
		i, err := again.Inspect(ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		if i.State == driver.Running {
			break
		}
	}
	s.epoch = 2
	if after := s.ask("2", "digest"); after != before {
		t.Errorf("its memory has the digest %s, and had %s", after, before)
	}
	s.cycle()
	if after := s.ask("3", "digest"); after != before {
		t.Errorf("its memory has the digest %s, and had %s", after, before)
	}
}

// TestCopiesOfOneMemoryStreamed has processes that share pages until one of them
// writes: what each of them has comes through a pipe that can't be sought in.
func TestCopiesOfOneMemoryStreamed(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	spec := answering(`use Digest::MD5 "md5_hex"; open(my $r, "<", "/dev/urandom") or die; read($r, my $b, 12 << 20); my @children;
		for my $n (1..4) {
			pipe(my $in, my $ask) or die; pipe(my $answer, my $out) or die; $ask->autoflush(1); $out->autoflush(1);
			if (!fork) {
				close $ask; close $answer;
				for (my $i = $n << 16; $i < length($b); $i += 40960 * $n) { substr($b, $i, 1) = chr($n) }
				while (<$in>) { print $out md5_hex($b), "\n" } exit;
			}
			push @children, [$ask, $answer];
		}`,
		`my $all = md5_hex($b); for my $c (@children) { my ($ask, $answer) = @$c; print $ask "x\n"; my $d = <$answer>; chomp $d; $all .= " $d" } $all`)
	s := begin(t, streaming(t, t.TempDir()), "s", spec)
	s.want("ready")
	before := s.ask("1", "digests")
	if digests := strings.Fields(before); len(digests) != 5 || digests[0] == digests[1] || digests[1] == digests[2] {
		t.Fatalf("the digests are %s", before)
	}
	for n := range 2 {
		s.cycle()
		if after := s.ask(fmt.Sprint(n+2), "digests"); after != before {
			t.Errorf("after a resume the digests are\n%s, and were\n%s", after, before)
		}
	}
}

// changedCode prints each shell and sleep of the session whose first page of code isn't that of its
// file, and how many there are.
const changedCode = `
	for my $maps (glob "/proc/[0-9]*/maps") {
		open(my $m, "<", $maps) or next;
		my ($line) = grep { / r-xp .* \// } <$m> or next;
		my ($start, $offset, $file) = $line =~ /^(\w+)-\w+ r-xp (\w+) \S+ \d+ +(\S+)/ or die $line;
		next if $file !~ m{/(sh|dash|sleep)$};
		my ($pid) = $maps =~ /(\d+)/;
		open(my $mem, "<:raw", "/proc/$pid/mem") or die "mem of $pid: $!"; sysseek($mem, hex($start), 0); sysread($mem, my $has, 4096) or die $!;
		open(my $f, "<:raw", $file) or die "$file: $!"; sysseek($f, hex($offset), 0); sysread($f, my $want, 4096) or die $!;
		$n++;
		substr($has, length $want) = "";
		next if $has eq $want;
		my ($at) = grep { substr($has, $_, 1) ne substr($want, $_, 1) } 0..4095;
		print "$pid $file: ", unpack("H16", substr($has, $at)), " rather than ", unpack("H16", substr($want, $at)), " at $at\n";
	}
	print "of $n"`

// TestCodeIsAsItWas has more processes than criu and the reader of its stream can stay in step
// for: criu puts system calls over their code while it works on them.
func TestCodeIsAsItWas(t *testing.T) {
	t.Parallel()
	const processes = 60
	s := begin(t, streaming(t, t.TempDir()), "s", schemas.Spec{Command: []string{"/bin/sh", "-c",
		fmt.Sprintf("for i in $(seq %d); do sleep 10000 & done; echo ready; wait", processes)}})
	s.want("ready")
	s.cycle()
	if got, want := s.run("perl", "-e", changedCode), fmt.Sprintf("of %d", processes+1); got != want {
		t.Errorf("code has changed: %s, want %s", got, want)
	}
}
