package criu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// miniRoot makes a root directory with a shell, and what it needs.
func miniRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	programs := []string{"/bin/sh", "/bin/sleep", "/bin/cat", "/bin/touch", "/bin/ls", "/bin/grep"}
	needed := map[string]bool{}
	for _, p := range programs {
		out, err := exec.Command("ldd", p).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", p, err)
		}
		needed[p] = true
		for _, f := range strings.Fields(string(out)) {
			if strings.HasPrefix(f, "/") {
				needed[f] = true
			}
		}
	}
	for _, d := range []string{"etc", "tmp", "bin"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for p := range needed {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\n"), 0o644),
		os.WriteFile(filepath.Join(root, "etc/motd"), []byte("of this root\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestRootReplacedWhileSuspended replaces every program and library of the root
// below a suspended session, as an upgrade does.
func TestRootReplacedWhileSuspended(t *testing.T) {
	t.Parallel()
	root := miniRoot(t)
	d := open(t, t.TempDir())
	spec := counting
	spec.Root = root
	s := begin(t, d, "s", spec)
	if got := s.sh("cat /etc/motd"); got != "of this root" {
		t.Errorf("the session's root has %q", got)
	}
	count(t, d, "s")
	img := s.suspend()
	replaced := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.Contains(path, "/lib") {
			return err
		}
		replaced++
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Same size, other content: what criu itself may not notice.
		for i := len(b) / 2; i < len(b); i++ {
			b[i] = 0
		}
		return os.WriteFile(path, b, 0o755)
	})
	if err != nil || replaced == 0 {
		t.Fatalf("replaced %d libraries: %v", replaced, err)
	}
	if err := os.Remove(filepath.Join(root, "bin/sh")); err != nil {
		t.Fatal(err)
	}
	s.resume(img, schemas.BootResume)
	count(t, d, "s")
	if got := s.sh("cat /etc/motd"); got != "of this root" {
		t.Errorf("after an upgrade below it the session reads %q", got)
	}
	s.cycle()
	count(t, d, "s")
}

// TestRootReplacedWhileRunning upgrades the programs below a running session, as
// package managers do: a new file takes the name of the old one.
func TestRootReplacedWhileRunning(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	root := miniRoot(t)
	d := open(t, t.TempDir())
	spec := counting
	spec.Root = root
	s := begin(t, d, "s", spec)
	count(t, d, "s")
	for _, pattern := range []string{"bin/sh", "lib/*/libc.so.6", "lib*/ld-linux*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s in the root: %v", pattern, err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+".new", append(b, "upgraded"...), 0o755)
			}
			if err == nil {
				err = os.Rename(path+".new", path)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 60 { // what a CRIU without the patch remap-path does wrong depends on who comes first
		s.cycle()
		count(t, d, "s")
	}
	if left := s.sh("ls -a /bin /lib/*-linux-gnu | grep cr_link || echo none"); left != "none" {
		t.Errorf("links stay behind: %s", left)
	}
}

// TestInodeNumbersStayAboveAnotherRoot replaces a program that a suspended session was using: the
// session gets it back from its image, and all other files keep their inode numbers, those copied up
// from the root too, then and when the root is again as it was.
func TestInodeNumbersStayAboveAnotherRoot(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	root := miniRoot(t)
	shell := filepath.Join(root, "bin/sh")
	program, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, t.TempDir())
	spec := counting
	spec.Root = root
	s := begin(t, d, "s", spec)
	const numbers = "ls -di /etc /etc/motd /etc/made /bin/cat /bin/ls /tmp"
	want := s.sh("echo more >> /etc/motd; echo made > /etc/made; " + numbers)
	for _, content := range [][]byte{append(slices.Clone(program), "upgraded"...), append(slices.Clone(program), "again"...), program} {
		img := s.suspend()
		if err := errors.Join(os.WriteFile(shell+".new", content, 0o755), os.Rename(shell+".new", shell)); err != nil {
			t.Fatal(err)
		}
		s.resume(img, schemas.BootResume)
		count(t, d, "s")
		if got := s.sh(numbers); got != want {
			t.Errorf("the numbers are\n%s\nand were\n%s", got, want)
		}
		if got := s.sh("cat /etc/motd"); got != "of this root\nmore" {
			t.Errorf("the session's file has %q", got)
		}
	}
}

// TestRenumberedIsTold replaces a file of the root that a suspended session has open and has written
// to: it gets another inode number then, which the resume says. As long as the root is the same nothing is said, nor of
// a file that the session made itself.
func TestRenumberedIsTold(t *testing.T) {
	t.Parallel()
	root := miniRoot(t)
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{Root: root, Command: []string{"/bin/sh", "-c", "exec 5>>/etc/motd 6>/etc/made; echo more >&5; echo ready; while :; do sleep 1; done"}})
	s.want("ready")
	if told := s.told(s.suspend()); len(told) > 0 {
		t.Errorf("above the same root it warns of %+v", told)
	}
	was := s.sh("ls -di /etc/motd")
	img := s.suspend()
	motd := filepath.Join(root, "etc/motd")
	if err := errors.Join(os.WriteFile(motd+".new", []byte("of another\n"), 0o644), os.Rename(motd+".new", motd)); err != nil {
		t.Fatal(err)
	}
	told := s.told(img)
	if len(told) != 1 || told[0].Code != schemas.WarnInodes || told[0].Subject != "/etc/motd" {
		t.Errorf("it warns of %+v, not of the number of /etc/motd alone", told)
	}
	if now := s.sh("ls -di /etc/motd"); now == was {
		t.Errorf("the number stayed %q: the root wasn't another one", was)
	}
	if told := s.told(s.suspend()); len(told) > 0 {
		t.Errorf("it warns again: %+v", told)
	}
}

// told resumes the session and gives what the resume warns of.
func (s *session) told(img *drivertest.Image) (told []schemas.Warning) {
	s.t.Helper()
	_, err := s.d.Restore(limited(s.t), s.next(), s.spec, img, schemas.BootResume, func(ctx context.Context) error {
		told = driver.WarningsOf(ctx)
		return nil
	})
	if err != nil {
		s.t.Fatalf("restore session %s: %v", s.uid, err)
	}
	return told
}
