package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// machine is a copy of this one, of which every change is lost, and whose systemctl notes what it is asked.
type machine struct {
	t    *testing.T
	root string
	log  string
}

const parts = "diapause.service diapause-worker.service diapause-scheduler.service diapause-api.service"

const systemctl = "#!/bin/sh\necho \"$*\" >>/asked\n"

func mount(t *testing.T, source, target, kind, options string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, 0, options); err != nil {
		t.Fatalf("mount %s at %s: %v", kind, target, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, 0); err != nil {
			t.Errorf("unmount %s: %v", target, err)
		}
	})
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	changes, root := filepath.Join(dir, "changes"), filepath.Join(dir, "root")
	for _, d := range []string{changes, root} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount(t, "tmpfs", changes, "tmpfs", "")
	for _, d := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(changes, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount(t, "overlay", root, "overlay", "lowerdir=/,upperdir="+filepath.Join(changes, "upper")+",workdir="+filepath.Join(changes, "work"))
	m := &machine{t: t, root: root, log: filepath.Join(root, "asked")}
	m.write("run/systemd/system/here", "", 0o644)
	m.write("usr/bin/systemctl", systemctl, 0o755)
	m.write("var/lib/diapause/kept", "data", 0o600)
	return m
}

func (m *machine) write(path, text string, mode os.FileMode) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

// dpkg runs Debian's dpkg there.
func (m *machine) dpkg(verb, of string) string {
	m.t.Helper()
	if strings.HasSuffix(of, ".deb") {
		text, err := os.ReadFile(of)
		if err != nil {
			m.t.Fatal(err)
		}
		m.write("new.deb", string(text), 0o644)
		of = "/new.deb"
	}
	const script = `mount --bind /dev "$0/dev" && mount --bind /proc "$0/proc" && exec chroot "$0" dpkg --force-confdef "$@"`
	return run(m.t, "/", "unshare", "--mount", "sh", "-c", script, m.root, verb, of)
}

// asked compares what systemctl was asked since the last time.
func (m *machine) asked(want ...string) {
	m.t.Helper()
	text, err := os.ReadFile(m.log)
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	if got := strings.TrimSpace(string(text)); got != strings.Join(want, "\n") {
		m.t.Errorf("systemctl was asked\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if err := os.Remove(m.log); err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
}

// newer gives the same package with a higher version.
func (m *machine) newer(deb string) string {
	m.t.Helper()
	dir := filepath.Join(m.t.TempDir(), "tree")
	run(m.t, "/", "dpkg-deb", "--raw-extract", deb, dir)
	run(m.t, dir, "sed", "-i", "s/^Version: .*/Version: 0.1.0/", "DEBIAN/control")
	run(m.t, "/", "dpkg-deb", "--root-owner-group", "-z1", "--build", dir, dir+".deb")
	return dir + ".deb"
}

// whole looks whether the package brings what its users expect.
func (m *machine) whole() {
	m.t.Helper()
	for _, path := range []string{"usr/share/man/man1/diapause.1.gz", "usr/share/doc/diapause/LICENCES.txt", "usr/lib/diapause/criu/patches/README.md"} {
		if _, err := os.Stat(filepath.Join(m.root, path)); err != nil {
			m.t.Error(err)
		}
	}
	if info, err := os.Stat(filepath.Join(m.root, "etc/diapause")); err != nil || info.Mode().Perm() != 0o700 {
		m.t.Errorf("/etc/diapause: %v, %v", info, err)
	}
	completion := filepath.Join(m.root, "usr/share/bash-completion/completions/diapause")
	if out, err := exec.Command("bash", "-c", `. "$0" && complete -p diapause`, completion).CombinedOutput(); err != nil {
		m.t.Errorf("bash's completion: %v\n%s", err, out)
	}
	for _, unit := range []string{"diapause", "diapause-worker", "diapause-scheduler", "diapause-api"} {
		text, err := os.ReadFile(filepath.Join(m.root, "usr/lib/systemd/system", unit+".service"))
		if err != nil || !strings.Contains(string(text), "ExecStart=/usr/bin/diapause ") {
			m.t.Errorf("unit %s: %v\n%s", unit, err, text)
		}
	}
	if out := run(m.t, "/", "chroot", m.root, "sh", "-c", "systemd-analyze verify --man=no --recursive-errors=yes /usr/lib/systemd/system/diapause*.service"); out != "" {
		m.t.Errorf("systemd-analyze, of Debian's package systemd:\n%s", out)
	}
	m.pages("diapause")
	if out := run(m.t, "/", filepath.Join(m.root, "usr/lib/diapause/criu/install/install.sh")); !strings.Contains(out, "is in ") {
		m.t.Errorf("the script that installs criu says %q", out)
	}
}

var listed = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +[A-Z]`)

// pages looks that a verb and all below it have a page of the manual, as the program's own help lists them.
func (m *machine) pages(verb ...string) {
	m.t.Helper()
	page := filepath.Join(m.root, "usr/share/man/man1", strings.Join(verb, "-")+".1.gz")
	if _, err := os.Stat(page); err != nil {
		m.t.Error(err)
	}
	help := run(m.t, "/", append(append([]string{filepath.Join(m.root, "usr/bin/diapause")}, verb[1:]...), "--help")...)
	_, help, _ = strings.Cut(help, "\nUsage:")
	found := listed.FindAllStringSubmatch(help, -1)
	if len(verb) == 1 && len(found) < 40 {
		m.t.Errorf("its help lists %d verbs", len(found))
	}
	for _, name := range found {
		if name[1] != "help" {
			m.pages(append(slices.Clone(verb), name[1])...)
		}
	}
}

// without has the package installed and removed with no systemd that runs, and with one that refuses.
func (m *machine) without(deb string) {
	m.t.Helper()
	m.write("usr/bin/systemctl", systemctl+"exit 1\n", 0o755)
	m.dpkg("--install", deb)
	if out := m.dpkg("--install", m.newer(deb)); !strings.Contains(out, "the old program still runs") {
		m.t.Errorf("an upgrade whose restart is refused says\n%s", out)
	}
	if out := m.dpkg("--remove", "diapause"); !strings.Contains(out, "its units may still run") {
		m.t.Errorf("a removal that can't stop the units says\n%s", out)
	}
	m.asked("daemon-reload", "daemon-reload", "--no-block try-restart "+parts, "disable --now "+parts, "daemon-reload")
	if err := os.RemoveAll(filepath.Join(m.root, "run/systemd")); err != nil {
		m.t.Fatal(err)
	}
	m.dpkg("--install", deb)
	m.dpkg("--install", m.newer(deb))
	m.dpkg("--remove", "diapause")
	m.asked()
}
