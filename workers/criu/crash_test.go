package criu

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

func TestShimKilled(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := open(t, data)
	begin(t, d, "s", counting)
	count(t, d, "s")
	state, err := d.shims.readState("s")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	exits := d.Exits(ctx)
	if err := unix.Kill(state.Shim, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case i := <-exits:
		if i.UID != "s" || i.State != driver.Exited || !i.Lost || !strings.Contains(i.Exit.Reason, "shim was killed") {
			t.Errorf("Exits gives %+v, %+v", i, i.Exit)
		}
	case <-ctx.Done():
		t.Fatal("nothing is said of a session whose shim was killed")
	}
	if err := unix.Kill(state.PID, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the leader of a session whose shim was killed is there: %v", err)
	}
	d2 := open(t, data)
	all, err := d2.Recover(ctx)
	if err != nil || len(all) != 1 || all[0].State != driver.Exited || !all[0].Lost {
		t.Errorf("Recover gives %+v, %v", all, err)
	}
	if _, err := d2.Capture(ctx, drivertest.Fence("s", 2), &drivertest.Image{}); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("Capture gives %v", err)
	}
}

// A shim that doesn't answer keeps no other session from being found, and its own is found as
// it was; when it goes on, all is as ever.
func TestShimHangs(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := open(t, data)
	begin(t, d, "s", counting)
	begin(t, d, "other", counting)
	state, err := d.shims.readState("s")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(state.Shim, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx := limited(t)
	d2 := open(t, data)
	all, err := d2.Recover(ctx)
	if contErr := unix.Kill(state.Shim, unix.SIGCONT); contErr != nil {
		t.Fatal(contErr)
	}
	if err != nil || len(all) != 2 || all[0].State != driver.Running || all[1].State != driver.Running {
		t.Errorf("Recover gives %+v, %v", all, err)
	}
	count(t, d2, "s")
	if err := d2.Stop(ctx, drivertest.Fence("s", 2)); err != nil {
		t.Errorf("Stop gives %v", err)
	}
}

// The roles of a process that is killed: what it does, on which data directory.
const (
	roleCapture = "die-in-capture" // in the middle of reading what was captured
	roleAfter   = "die-after-capture"
	roleStart   = "die-in-start" // while begin is asked
	roleRestore = "die-in-restore"
)

func init() {
	roles[roleCapture] = func(t *tester, d *Driver) error {
		_, err := d.Capture(t.ctx, drivertest.Fence("s", 2), &drivertest.Image{Fail: func(e image.Entry) error {
			if e.Name == layerMap {
				dieNow()
			}
			return nil
		}})
		return err
	}
	roles[roleAfter] = func(t *tester, d *Driver) error {
		if _, err := d.Capture(t.ctx, drivertest.Fence("s", 2), &drivertest.Image{}); err != nil {
			return err
		}
		dieNow()
		return nil
	}
	dying := func(context.Context) error {
		dieNow()
		return nil
	}
	roles[roleStart] = func(t *tester, d *Driver) error {
		_, err := d.Start(t.ctx, drivertest.Fence("s", 1), counting, dying)
		return err
	}
	roles[roleRestore] = func(t *tester, d *Driver) error {
		if _, err := d.Start(t.ctx, drivertest.Fence("s", 1), counting, drivertest.Begin); err != nil {
			return err
		}
		img := &drivertest.Image{}
		if _, err := d.Capture(t.ctx, drivertest.Fence("s", 2), img); err != nil {
			return err
		}
		if err := d.Stop(t.ctx, drivertest.Fence("s", 2)); err != nil {
			return err
		}
		_, err := d.Restore(t.ctx, drivertest.Fence("s", 3), counting, img, schemas.BootResume, dying)
		return err
	}
}

func dieNow() {
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// die runs a role in a process of its own, which kills itself in the middle.
func die(t *testing.T, d *Driver, role string) {
	t.Helper()
	cmd := exec.CommandContext(limited(t), "/proc/self/exe", role, d.options.Data, d.options.Instance)
	cmd.Env = append(os.Environ(), wayVariable+"="+string(d.options.Way))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() != true {
		t.Fatalf("%s ended by itself: %v\n%s", role, err, out)
	}
}

func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	t.Run(roleCapture, func(t *testing.T) {
		d := open(t, t.TempDir())
		s := begin(t, d, "s", counting)
		before := count(t, d, "s")
		die(t, d, roleCapture)
		again := open(t, d.options.Data)
		all, err := again.Recover(limited(t))
		if err != nil || len(all) != 1 || all[0].Epoch != 2 {
			t.Fatalf("Recover gives %+v, %v", all, err)
		}
		s.epoch = 2
		if err := again.Thaw(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		if n := count(t, again, "s"); n <= before {
			t.Errorf("the session counts %d, %d before", n, before)
		}
		s.cycle()
		count(t, again, "s")
	})
	t.Run(roleAfter, func(t *testing.T) {
		d := open(t, t.TempDir())
		s := begin(t, d, "s", counting)
		die(t, d, roleAfter)
		again := open(t, d.options.Data)
		all, err := again.Recover(limited(t))
		if err != nil || len(all) != 1 || all[0].State != driver.Frozen {
			t.Fatalf("Recover gives %+v, %v: a captured session must wait for its worker", all, err)
		}
		s.epoch = 2
		if err := again.Thaw(limited(t), s.next()); err != nil {
			t.Fatal(err)
		}
		count(t, again, "s")
	})
	for _, role := range []string{roleStart, roleRestore} {
		t.Run(role, func(t *testing.T) {
			d := open(t, t.TempDir())
			die(t, d, role)
			again := open(t, d.options.Data)
			all, err := again.Recover(limited(t))
			if err != nil || len(all) != 0 {
				t.Errorf("Recover gives %+v, %v", all, err)
			}
			if left, err := again.shims.known(); err != nil || len(left) != 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}

func TestConnectionsWithTheOutside(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", answering(fmt.Sprintf(`use IO::Socket::INET; $SIG{PIPE} = "IGNORE";
		my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => %d) or die;
		my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 5) or die; print "port ", $l->sockport, " end\n";`, l.Addr().(*net.TCPAddr).Port),
		`syswrite($s, "x") ? "open" : "closed"`))
	s.want("ready")
	_, port, _ := strings.Cut(output(t, d, "s"), "port ")
	port, _, _ = strings.Cut(port, " ")
	client, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	img, c := s.capture()
	found := false
	for _, w := range c.Warnings {
		found = found || strings.Contains(w.Text, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)) && strings.Contains(w.Text, "closed on resume")
	}
	if !found {
		t.Errorf("a connection with the outside isn't warned about: %v", c.Warnings)
	}
	if err := d.Stop(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	s.resume(img, schemas.BootResume)
	if got := s.ask("1", "x"); got != "closed" {
		t.Errorf("after a resume the connection is %s", got)
	}
	again, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Errorf("after a resume the session doesn't listen: %v", err)
	} else {
		again.Close()
	}
}

func TestInbound(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Command: []string{"/usr/bin/perl", "-e", `use IO::Socket::INET; $| = 1;
		my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 5) or die; print "port ", $l->sockport, " end\n";
		my @c; while (my $c = $l->accept) { push @c, $c; print "accepted\n" }`}})
	s.want("end")
	_, port, _ := strings.Cut(output(t, d, "s"), "port ")
	port, _, _ = strings.Cut(port, " ")
	if o, err := d.Observe(limited(t), "s"); err != nil || o.Inbound != 0 || o.RSS < 1<<20 || o.Processes != 2 {
		t.Errorf("Observe gives %+v, %v", o, err)
	}
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.want("accepted")
	if o, err := d.Observe(limited(t), "s"); err != nil || o.Inbound != 1 {
		t.Errorf("with a connection from outside Observe gives %+v, %v", o, err)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", counting)
	big := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	for _, h := range []*tar.Header{
		{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o750},
		{Name: "dir/big", Typeflag: tar.TypeReg, Mode: 0o640, Size: int64(len(big)), Uid: 12, Gid: 34, ModTime: time.Unix(981173106, 0)},
		{Name: "dir/link", Typeflag: tar.TypeSymlink, Linkname: "big"},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(big); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	request(t, d, "s", attach.Request{Op: attach.OpPut, Path: "/tmp"}, in.String())
	if got := s.sh("stat -c '%a %u:%g %Y %s' /tmp/dir/big; readlink /tmp/dir/link"); got != "640 12:34 981173106 3200000\nbig" {
		t.Errorf("what was copied in is %q", got)
	}
	out, _ := request(t, d, "s", attach.Request{Op: attach.OpGet, Path: "/tmp/dir"}, "")
	r := tar.NewReader(strings.NewReader(out))
	names := ""
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names += h.Name + " "
		if h.Name == "dir/big" {
			if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, big) {
				t.Errorf("what was copied out has %d bytes, %v", len(b), err)
			}
		}
	}
	if names != "dir/ dir/big dir/link " && names != "dir/ dir/link dir/big " {
		t.Errorf("what was copied out is %s", names)
	}
	// Neither a symlink of the session's nor a name in the stream leads out of it.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	s.sh("ln -s " + d.options.Data + " /tmp/data; ln -s /proc/self/root /tmp/root; ln -s ../../../../../.. /tmp/up")
	for _, path := range []string{"/tmp/data/fences", "/proc/1/root" + d.options.Data, "/tmp/up" + d.options.Data + "/fences"} {
		conn, err := d.Dial(limited(t), "s")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := attach.Do(conn, attach.Request{Op: attach.OpGet, Path: path}, attach.Streams{Stdout: &got}); err == nil && strings.Contains(got.String(), "fences/s") {
			t.Errorf("%s was copied out of the session", path)
		}
	}
}
