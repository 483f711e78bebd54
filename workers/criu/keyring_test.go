package criu

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// A session sees its own cgroup as the root, and has none of the host's session keyring: when
// it is started, resumed and forked, and in commands of exec.
func TestCgroupNamespaceAndKeyring(t *testing.T) {
	t.Parallel()
	key, err := unix.AddKey("user", "diapause-test-"+t.TempDir(), []byte("SECRET"), unix.KEY_SPEC_SESSION_KEYRING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, key, unix.KEY_SPEC_SESSION_KEYRING, 0, 0) })
	spec := answering("", fmt.Sprintf(`my $c = do { local @ARGV = ("/proc/self/cgroup"); join("", <>) };
		my $read = syscall(250, 11, %d, my $b = "x" x 100, 100); my $ring = syscall(250, 0, -3, 0);
		join("", map { /:([^:]*)$/; $1 } split(/\n/, $c)) . " $read " . readlink("/proc/self/ns/cgroup") . " $ring"`, key))
	spec.Seccomp = schemas.Unconfined // else it couldn't ask
	d := open(t, t.TempDir())
	s := begin(t, d, "s", spec)
	host, err := os.Readlink("/proc/self/ns/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if err != nil {
		t.Fatal(err)
	}
	check := func(s *session, when, n string) {
		t.Helper()
		s.want("ready")
		got := strings.Fields(s.ask(n, "go"))
		if len(got) != 4 || strings.Trim(got[0], "/") != "" || got[0] == "" || got[1] != "-1" || got[2] == host || got[3] == fmt.Sprint(ours) {
			t.Errorf("%s the program has the groups, the answer of keyctl, the namespace and the keyring %q", when, got)
		}
		for line := range strings.Lines(s.sh("cat /proc/self/cgroup")) {
			if !strings.HasSuffix(strings.TrimSpace(line), ":/") {
				t.Errorf("%s a command sees its group as %s", when, line)
			}
		}
		if in := s.sh("readlink /proc/self/ns/cgroup"); len(got) == 4 && in != got[2] {
			t.Errorf("%s a command is in %s, the program in %s", when, in, got[2])
		}
		out := s.run("/usr/bin/perl", "-e", fmt.Sprintf(`my $b = "x" x 100; print syscall(250, 11, %d, $b, 100), " ", syscall(250, 0, -3, 0)`, key))
		if f := strings.Fields(out); len(f) != 2 || f[0] != "-1" || f[1] == fmt.Sprint(ours) {
			t.Errorf("%s a command has the answer of keyctl, and the keyring, %q", when, out)
		}
	}
	check(s, "started,", "1")
	img := s.cycle()
	check(s, "resumed,", "2")
	s.cycle()
	check(s, "resumed twice,", "3")
	fork := &session{t: t, d: d, uid: "fork", spec: spec}
	fork.stopLater()
	fork.resume(img, schemas.BootFork)
	check(fork, "forked,", "2")
}
