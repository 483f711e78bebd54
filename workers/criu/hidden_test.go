package criu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// secretsOf makes secrets of a host in a directory: files, and a store.
func secretsOf(t *testing.T) (dir string, hidden []string) {
	t.Helper()
	dir = t.TempDir()
	err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "store"), 0o755),
		os.WriteFile(filepath.Join(dir, "store/object"), []byte("SECRET"), 0o644),
		os.WriteFile(filepath.Join(dir, "creds"), []byte("SECRET"), 0o644),
		os.WriteFile(filepath.Join(dir, "identity"), []byte("SECRET"), 0o644),
		os.Symlink("identity", filepath.Join(dir, "link")),
		os.WriteFile(filepath.Join(dir, "plain"), []byte("plain"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return dir, []string{filepath.Join(dir, "store"), filepath.Join(dir, "creds"), filepath.Join(dir, "link"), filepath.Join(dir, "later/key")}
}

func openHiding(t *testing.T, hidden ...string) *Driver {
	t.Helper()
	d := open(t, t.TempDir())
	d.options.Hidden = hidden
	return d
}

// probe tries from inside a session to reach what is hidden in dir, in each way there is.
func (s *session) probe(when, dir string) {
	s.t.Helper()
	for _, script := range []string{
		"cat DIR/creds", "cat DIR/identity", "cat DIR/link", "cat DIR/store/object", "cat DIR/later/key",
		"cat /proc/1/root/DIR/creds", "cat /proc/self/root/DIR/store/object", "cat /proc/self/cwd/DIR/creds",
		"cat DIR/../$(basename DIR)/identity", "ln -s DIR/creds /tmp/l$$; cat /tmp/l$$; ln -s DIR /tmp/d$$; cat /tmp/d$$/identity",
		"ln DIR/creds /tmp/h$$; cat /tmp/h$$", "cp DIR/creds /tmp/c$$; cat /tmp/c$$",
		"cd DIR/store && ls -A | grep . && cat object", "grep -r SECRET DIR", "perl -e 'open(F, \"<\", \"DIR/creds\") or die; print <F>'",
		"for p in /proc/[0-9]*; do cat $p/root/DIR/creds; done", "mount --bind DIR /mnt; cat /mnt/creds",
	} {
		script = strings.ReplaceAll(script, "DIR", dir)
		if out, _ := request(s.t, s.d, s.uid, shimExec("/bin/sh", "-c", script), ""); strings.Contains(out, "SECRET") {
			s.t.Errorf("%s: %s reads what is hidden:\n%s", when, script, out)
		}
	}
	if got := s.sh("cat " + dir + "/plain"); got != "plain" {
		s.t.Errorf("%s: a file beside what is hidden has %q", when, got)
	}
}

// uncover tries to take away what hides the files of dir.
func (s *session) uncover(dir string) {
	s.t.Helper()
	for _, script := range []string{
		"mv DIR/creds /tmp/m$$; cat /tmp/m$$; cat DIR/creds", "rm -f DIR/identity; cat DIR/identity",
		"rm -rf DIR/store; mkdir DIR/store; cat DIR/store/object; mv DIR/store DIR/moved; cat DIR/moved/object",
		"mv DIR DIR.moved; cat DIR.moved/creds DIR.moved/identity; mkdir DIR; cat DIR/creds DIR/store/object",
	} {
		script = strings.ReplaceAll(script, "DIR", dir)
		if out, _ := request(s.t, s.d, s.uid, shimExec("/bin/sh", "-c", script), ""); strings.Contains(out, "SECRET") {
			s.t.Errorf("%s reads what is hidden:\n%s", script, out)
		}
	}
}

func TestHiddenFiles(t *testing.T) {
	t.Parallel()
	dir, hidden := secretsOf(t)
	d := openHiding(t, hidden...)
	s := begin(t, d, "s", counting)
	if got := s.sh("stat -c '%s %a %F' " + dir + "/creds; ls -A " + dir + "/store | wc -l"); got != "0 0 regular empty file\n0" {
		t.Errorf("in the place of what is hidden there is %q", got)
	}
	s.probe("started", dir)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "later"), 0o755), os.WriteFile(filepath.Join(dir, "later/key"), []byte("SECRET"), 0o644)); err != nil {
		t.Fatal(err)
	}
	s.probe("made later", dir)
	img := s.cycle()
	s.probe("resumed", dir)
	s.uncover(dir)
	s.cycle()
	if out := s.sh("cat " + dir + "*/* " + dir + "/store/* || true"); strings.Contains(out, "SECRET") {
		t.Errorf("a session that took all away reads %s", out)
	}
	fork := &session{t: t, d: d, uid: "fork", spec: counting}
	fork.stopLater()
	fork.resume(img, schemas.BootFork)
	fork.probe("forked", dir)

	// Another host has other secrets, and none where this one has some.
	other, others := secretsOf(t)
	there := openHiding(t, others...)
	moved := &session{t: t, d: there, uid: "moved", spec: counting}
	moved.stopLater()
	moved.resume(img, schemas.BootFork)
	moved.probe("on another host", other)
	if got := moved.sh("cat " + dir + "/identity"); got != "SECRET" {
		t.Errorf("what only the first host hides has %q on the second", got)
	}
	moved.cycle()
	moved.probe("resumed on another host", other)
}

// A session was started when its host hid nothing. What it had open it has in its image, and keeps.
func TestHiddenSinceTheImage(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	dir, hidden := secretsOf(t)
	opened := filepath.Join(dir, "opened")
	if err := os.WriteFile(opened, []byte("held"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := openHiding(t)
	spec := answering(`chdir "`+dir+`/store" or die; open(my $held, "<", "`+opened+`") or die;`,
		`my ($a, $b) = ("", ""); seek($held, 0, 0); read($held, $a, 9); if (open(my $f, "<", "`+dir+`/creds")) { read($f, $b, 9) } "$a,$b," . join(" ", glob("*"))`)
	s := begin(t, d, "s", spec)
	s.want("ready")
	if got := s.ask("1", "go"); got != "held,SECRET,object" {
		t.Fatalf("before, it reads %q", got)
	}
	img := s.suspend()
	d.options.Hidden = append(hidden, opened)
	s.resume(img, schemas.BootResume)
	for _, n := range []string{"2", "3"} {
		if got := s.ask(n, "go"); got != "held,," {
			t.Errorf("after a resume it reads %q", got)
		}
		s.probe("resumed", dir)
		s.cycle()
	}
}

func TestRootWithinWhatIsHidden(t *testing.T) {
	t.Parallel()
	dir, hidden := secretsOf(t)
	d := openHiding(t, hidden...)
	for _, root := range []string{filepath.Join(dir, "store"), d.options.Data, d.dir.run} {
		spec := counting
		spec.Root = root
		_, err := d.Start(limited(t), drivertest.Fence("s", 1), spec, drivertest.Begin)
		if driver.KindOf(err) != driver.Refused || err == nil || !strings.Contains(err.Error(), "can't have the root") {
			t.Errorf("a session with the root %s gives %v", root, err)
		}
	}
}

// TestMountPointsAreMadeAgain has a root that lacks the places of mounts on a second host.
func TestMountPointsAreMadeAgain(t *testing.T) {
	t.Parallel()
	root := miniRoot(t)
	for _, name := range []string{"proc", "sys", "dev", "run"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, t.TempDir())
	spec := counting
	spec.Root = root
	s := begin(t, d, "s", spec)
	count(t, d, "s")
	img := s.suspend()
	for _, name := range []string{"proc", "sys", "dev", "run"} {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.resume(img, schemas.BootResume)
	count(t, d, "s")
}

// TestMountsOfAnotherKernel resumes a session whose image has something mounted where this host's
// kernel has no such place.
func TestMountsOfAnotherKernel(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := begin(t, d, "s", counting)
	count(t, d, "s")
	img := s.suspend()
	changed := 0
	for _, e := range img.Entries() {
		if !strings.Contains(e.Name, "mountpoints-") {
			continue
		}
		b, _ := img.Content(e.Name)
		for _, name := range []string{"/proc/kcore", "/proc/irq", "/proc/acpi", "/sys/firmware"} {
			for i := bytes.Index(b, []byte(name)); i >= 0; i = bytes.Index(b, []byte(name)) {
				b[i+len(name)-1] = 'X'
				changed++
			}
		}
	}
	if changed < 3 {
		t.Fatalf("the image has %d of the mounts", changed)
	}
	s.resume(img, schemas.BootResume)
	count(t, d, "s")
	if out := s.sh("head -c 1 /proc/keys | wc -c; ls -A /sys/firmware | wc -l"); !strings.HasPrefix(out, "0\n") {
		t.Errorf("of what is hidden it reads %q", out)
	}
	s.cycle()
	count(t, d, "s")
}

// TestHiddenFromAFullSession resumes a session whose own file system has no room to hide more.
func TestHiddenFromAFullSession(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	dir, hidden := secretsOf(t)
	d := openHiding(t)
	spec := counting
	spec.Disk = 128 << 20
	s := begin(t, d, "s", spec)
	count(t, d, "s")
	s.sh("cat /dev/zero >/tmp/all; i=0; while echo x >/tmp/x$i; do i=$((i+1)); done; true")
	img := s.suspend()
	d.options.Hidden = hidden
	s.resume(img, schemas.BootResume)
	s.probe("resumed", dir)
	s.cycle()
	s.probe("resumed twice", dir)
	s.sh("rm /tmp/all")
	s.cycle()
	s.probe("with room again", dir)
	count(t, d, "s")
}
