package flood

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// Of a disk of 200 MiB 8 are kept for what is recorded, and a program leaves less.
const (
	left     = 6 << 20
	patience = time.Minute // a passing test never waits so long
)

// A disk that a program fills has strangers refused before it stops anything: what is recorded
// goes on, sessions are resumed, and with room again strangers are heard.
func TestNearlyFullDisk(t *testing.T) {
	data := t.TempDir()
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "mode=700,size=200m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(data, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, _ := stack.Fresh(t)
	s.Data = data
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(s.URL, "nats://")
	for _, name := range []string{"work", "asleep"} {
		must(t, s, "run", "--name", name, "--idle", "never", "--", "sleep", "100000")
	}
	must(t, s, "suspend", "asleep")
	open := dialAs(t, stranger, address)
	if !greeted(t, open) {
		t.Fatal("a stranger is refused on a disk with room")
	}
	if _, err := io.WriteString(open, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n"); err != nil {
		t.Fatal(err)
	}

	full := filepath.Join(data, "fill")
	fill(t, data, full)
	if rest, err := io.ReadAll(open); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a connection that was open goes on on a disk that is nearly full; it heard %q", rest)
	}
	if greeted(t, dialAs(t, stranger, address)) {
		t.Error("a stranger isn't refused on a disk that is nearly full")
	}
	must(t, s, "ensure", "work")
	must(t, s, "resume", "asleep")
	if !s.Alive() {
		t.Fatal("the daemon has ended")
	}

	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); !greeted(t, dialAs(t, stranger, address)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a stranger is refused though there is room again")
		}
	}
	must(t, s, "suspend", "asleep")
	wakes(t, s, "asleep")
	must(t, s, "audit", "--verify")
	if n := strings.Count(s.Log(), "the disk is nearly full: activity without credentials isn't taken, and"); n != 1 {
		t.Errorf("the daemon warned %d times, want once", n)
	}
}

// A disk on which others have taken the last byte stops nothing: sessions are resumed and what
// happens is recorded in what was reserved for it, and there is a reserve again once there is room.
func TestFullDisk(t *testing.T) {
	data := t.TempDir()
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "mode=700,size=400m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(data, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, _ := stack.Fresh(t)
	s.Data = data
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"work", "asleep"} {
		must(t, s, "run", "--name", name, "--idle", "never", "--", "sleep", "100000")
	}
	must(t, s, "suspend", "asleep")
	full := filepath.Join(data, "fill")
	fillUp(t, full)
	for end := time.Now().Add(patience); ; {
		r := s.Do("resume", "asleep")
		if r.Code == 0 {
			break
		}
		if time.Now().After(end) || !s.Alive() {
			t.Fatalf("a session can't be resumed on a full disk: %s%s", r.Out, r.Err)
		}
	}
	for range 20 {
		must(t, s, "hold", "work", "--for", "1h", "--reason", strings.Repeat("full", 50))
		must(t, s, "release", "work")
	}
	if greeted(t, dialAs(t, stranger, strings.TrimPrefix(s.URL, "nats://"))) {
		t.Error("a stranger isn't refused on a full disk")
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(data, "nats", "reserve")); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatalf("with room nothing is reserved again: %v", err)
		}
	}
	must(t, s, "suspend", "asleep")
	must(t, s, "ensure", "asleep")
	must(t, s, "audit", "--verify")
}

// fillUp writes a file until the disk has no byte left.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		n, err := f.Write(block)
		if errors.Is(err, unix.ENOSPC) && n == 0 && len(block) == 1 {
			return
		}
		if errors.Is(err, unix.ENOSPC) {
			block = block[:max(1, len(block)/2)]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// fill takes all of the disk but what is to be left.
func fill(t *testing.T, disk, path string) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(disk, &fs); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(fs.Bfree)*fs.Bsize-left); err != nil {
		t.Fatal(err)
	}
}

// greeted reports whether the server says its first line; false if the connection is ended.
func greeted(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("INFO "))
	switch n, err := io.ReadFull(c, first); {
	case err == nil && string(first) == "INFO ":
		return true
	case n == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		return false
	default:
		t.Fatalf("the server says %q, %v", first[:n], err)
		return false
	}
}

// wakes has a stranger say that a session is used, and waits until it is resumed.
func wakes(t *testing.T, s *stack.Stack, name string) {
	t.Helper()
	client, err := events.Connect(events.Options{URL: s.URL, By: "flood test"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := client.Session(name)
	if err != nil {
		t.Fatal(err)
	}
	session.Input()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		v, err := s.View(name)
		if err != nil {
			t.Fatal(err)
		}
		if v.State == schemas.Running {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("session %s is %s after it was used", name, v.State)
		}
	}
}
