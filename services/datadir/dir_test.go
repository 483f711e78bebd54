package datadir

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

func TestFirstAndSecondStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "data")
	d := open(t, path)
	if !d.NewKeys() {
		t.Error("the first start doesn't say that it made the keys")
	}
	if !schemas.ValidToken(string(d.Host())) {
		t.Errorf("host id %q is no token", d.Host())
	}
	for name, mode := range map[string]fs.FileMode{
		"": 0o700, "version": 0o600, "lock": 0o600, "host": 0o600, "keys": 0o700,
		"keys/identity.txt": 0o600, "keys/signing.key": 0o600,
	} {
		info, err := os.Stat(d.Join(name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%q has mode %o, want %o", name, info.Mode().Perm(), mode)
		}
	}
	before := d.Host()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, path)
	if !d.NewKeys() || d.Host() != before {
		t.Errorf("the second start: new keys %v, host %s; want new keys, which were not shown, and %s", d.NewKeys(), d.Host(), before)
	}
	if err := d.KeysShown(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if open(t, path).NewKeys() {
		t.Error("the keys that the person was told of count as new")
	}
}

func TestAFirstStartThatWasCutShortGoesOn(t *testing.T) {
	path := initialised(t)
	identity, err := os.ReadFile(filepath.Join(path, keysDir, identityFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{versionFile, hostFile, filepath.Join(keysDir, signingFile)} {
		if err := os.Remove(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(path, keysDir, signingFile+temporary), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, path)
	if _, err := d.Keys(nil, nil); err != nil || !d.NewKeys() {
		t.Errorf("keys: %v, new %v; want a finished first start", err, d.NewKeys())
	}
	if now, err := os.ReadFile(d.Join(keysDir, identityFile)); err != nil || !bytes.Equal(now, identity) {
		t.Errorf("the identity that was made before the cut was replaced (%v)", err)
	}
}

func TestDiscard(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, path string)
		keep   bool
		left   func(path string) bool
	}{
		"absent before": {func(*testing.T, string) {}, false, func(path string) bool { return !exists(path) }},
		"empty before": {func(t *testing.T, path string) { makeDir(t, path) }, false, func(path string) bool {
			entries, err := os.ReadDir(path)
			return err == nil && len(entries) == 0
		}},
		"known elsewhere": {func(*testing.T, string) {}, true, func(path string) bool { return exists(filepath.Join(path, keysDir, identityFile)) }},
		"with keys before": {func(t *testing.T, path string) {
			makeDir(t, filepath.Join(path, keysDir))
			text, err := newIdentity()
			if err == nil {
				err = os.WriteFile(filepath.Join(path, keysDir, identityFile), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, false, func(path string) bool { return exists(filepath.Join(path, keysDir, identityFile)) }},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data")
			c.before(t, path)
			d, err := Open(path, "")
			if err != nil {
				t.Fatal(err)
			}
			makeDir(t, d.Join("nats", "jetstream"))
			if c.keep {
				d.Keep()
			}
			if err := d.Discard(); err != nil {
				t.Fatal(err)
			}
			if !c.left(path) {
				t.Errorf("left:\n%s", contents(t, filepath.Dir(path)))
			}
			open(t, path)
		})
	}
}

func makeDir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestTwoProcessesContend(t *testing.T) {
	path := initialised(t)
	h := startHolder(t, path)
	_, err := Open(path, "")
	wantRefusal(t, err, ErrInUse, path, "process "+strconv.Itoa(h.Process.Pid), "since 2", "nats://127.0.0.1:4222")
	h.stdin.Close()
	if err := h.Wait(); err != nil {
		t.Fatalf("the other process: %v", err)
	}
	open(t, path)
}

func TestOneProcessOpensItOnce(t *testing.T) {
	path := initialised(t)
	open(t, path)
	_, err := Open(path, "")
	wantRefusal(t, err, ErrInUse, strconv.Itoa(os.Getpid()))
}

func TestAKilledHolderLetsGo(t *testing.T) {
	path := initialised(t)
	h := startHolder(t, path)
	if err := h.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.Wait() // it was killed
	_, err := Locate(path)
	wantRefusal(t, err, ErrNotRunning, strconv.Itoa(h.Process.Pid), "diapause up --data "+path)
	d := open(t, path)
	if _, err := os.Stat(d.Join(upFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the killed process's notice is still there (%v)", err)
	}
}

func TestNewerVersionIsLeftAlone(t *testing.T) {
	path := initialised(t)
	if err := os.WriteFile(filepath.Join(path, versionFile), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, path)
	_, err := Open(path, "")
	wantRefusal(t, err, ErrNewer, path, "version 7", "knows 1")
	if after := contents(t, path); after != before {
		t.Errorf("the directory was changed:\n%s\nbefore:\n%s", after, before)
	}
}

func TestForeignDirectoriesAreLeftAlone(t *testing.T) {
	for name, file := range map[string]string{"other things": "notes.txt", "no version": "nats", "odd version": versionFile} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, file), []byte("precious"), 0o644); err != nil {
				t.Fatal(err)
			}
			before := contents(t, path)
			_, err := Open(path, "")
			wantRefusal(t, err, ErrForeign, path, file)
			if after := contents(t, path); after != before {
				t.Errorf("the directory was changed:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

func TestAFileIsNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, ""); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("open a file: %v, want that it is no directory", err)
	}
}

func TestOpenToOthers(t *testing.T) {
	empty := t.TempDir()
	if err := os.Chmod(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, empty)
	if info, err := os.Stat(empty); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("an empty directory was not closed to others: %v, %v", info.Mode(), err)
	}
	used := initialised(t)
	if err := os.Chmod(used, 0o750); err != nil {
		t.Fatal(err)
	}
	_, err := Open(used, "")
	wantRefusal(t, err, ErrAccess, "0750", "chmod 700 "+used)
}

// asAnotherUser runs f with the file rights of an ordinary user that owns
// nothing, if the test runs as root.
func asAnotherUser(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		_ = unix.Setfsuid(65534)
		f()
	}()
	<-done
}

func TestDirectoryOfAnotherUser(t *testing.T) {
	path := initialised(t)
	d := open(t, path)
	if err := d.Serving("nats://127.0.0.1:4223", "nats://127.0.0.1:4222", ""); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		// A directory of another user can't be made here, but one that can't be entered can.
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(path, 0o700)
	}
	var locating, opening error
	asAnotherUser(func() {
		_, locating = Locate(path)
		_, opening = Open(path, "")
	})
	wantRefusal(t, locating, ErrAccess, path, "sudo")
	wantRefusal(t, opening, ErrAccess, path, "sudo")
}

func TestEvenRootStaysOutOfAnotherUsersDirectory(t *testing.T) {
	path := initialised(t)
	other := uint32(65534)
	if err := os.Chown(path, int(other), -1); err != nil {
		// An ordinary user can't give a directory away; the root directory will do.
		path, other = "/", 0
	}
	wantRefusal(t, checkAccess(path, false), ErrAccess, "belongs to "+userName(other), "--data")
}

func TestLocate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	_, err := Locate(path)
	wantRefusal(t, err, ErrNotRunning, path, "diapause up --data "+path, "DIAPAUSE_DATA")

	d := open(t, path)
	_, err = Locate(path)
	wantRefusal(t, err, ErrNotRunning, "starting", strconv.Itoa(os.Getpid()))

	creds := d.Join("creds", "client.nk")
	if err := d.Serving("nats://127.0.0.1:4223", "nats://127.0.0.1:4222", creds); err != nil {
		t.Fatal(err)
	}
	up, err := Locate(path)
	if err != nil {
		t.Fatal(err)
	}
	if up.URL != "nats://127.0.0.1:4223" || up.PublicURL != "nats://127.0.0.1:4222" || up.PID != os.Getpid() || up.Host != d.Host() || up.ClientCreds != creds || up.Started.IsZero() {
		t.Errorf("located %+v, want what Serving was told", up)
	}

	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Locate(path)
	wantRefusal(t, err, ErrNotRunning, "diapause up --data "+path)
}

func TestLookingDoesNotStopAStart(t *testing.T) {
	path := initialised(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = Locate(path) // its answer changes all the time
			}
		}
	}()
	for range 100 {
		if err := open(t, path).Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-done
}

func TestHostID(t *testing.T) {
	suffix := []byte{0xab, 0xcd, 0x01, 0x23}
	for hostname, want := range map[string]string{
		"web-1":                    "web-1-abcd0123",
		"web-1.example.org":        "web-1-abcd0123",
		"":                         "host-abcd0123",
		"ünï cödé":                 "n-c-d-abcd0123",
		"---":                      "host-abcd0123",
		strings.Repeat("long", 30): strings.Repeat("long", 12) + "-abcd0123",
	} {
		if got := hostID(hostname, suffix); got != want || !schemas.ValidToken(got) {
			t.Errorf("hostID(%q) = %q, want %q", hostname, got, want)
		}
	}
}

func TestHostIsNeverMadeAgain(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"gone":    os.Remove,
		"damaged": func(file string) error { return os.WriteFile(file, []byte("a b"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := initialised(t)
			if err := spoil(filepath.Join(path, hostFile)); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path, ""); err == nil || !strings.Contains(schemas.HintOf(err), "backup") {
				t.Errorf("open: %v, want that the id is to be restored", err)
			}
		})
	}
}

// A new directory gets the id that is given; another's is refused, and left as it is.
func TestOpenForAHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	d, err := Open(path, "h1")
	if err != nil {
		t.Fatal(err)
	}
	if d.Host() != "h1" {
		t.Errorf("the host is %s", d.Host())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "h2"); !errors.Is(err, ErrOtherHost) || schemas.HintOf(err) == "" {
		t.Errorf("as another host: %v", err)
	}
	for _, id := range []schemas.HostID{"h1", ""} {
		d, err := Open(path, id)
		if err != nil {
			t.Fatal(err)
		}
		if d.Host() != "h1" {
			t.Errorf("the host is %s", d.Host())
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
