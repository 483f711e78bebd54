package doctor

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// want checks a result; one that isn't well must say what to do.
func want(t *testing.T, what string, r Result, status Status, says string) {
	t.Helper()
	if r.Status != status || !strings.Contains(r.Detail, says) {
		t.Errorf("%s: %s, %q; want %s and %q", what, r.Status, r.Detail, status, says)
	}
	if (r.Fix != "") != (r.Status == Warn || r.Status == Fail) {
		t.Errorf("%s: %s with the fix %q", what, r.Status, r.Fix)
	}
}

func TestKernel(t *testing.T) {
	for release, status := range map[string]Status{
		"6.1.0-13-amd64": OK, "5.10.0": OK, "5.9.16": Fail, "4.19.0-26-amd64": Fail, "6.18+": OK, "odd": Warn, "x.y": Warn,
	} {
		want(t, release, kernel(release, "amd64"), status, release)
	}
	want(t, "arm64", kernel("6.1.0", "arm64"), Fail, "amd64 only")
}

func TestPrivileges(t *testing.T) {
	want(t, "root", privileges(0), OK, "root")
	want(t, "a user", privileges(1000), Fail, "user 1000")
}

func TestCapabilities(t *testing.T) {
	all := ^uint64(0)
	want(t, "all", capabilities(all), OK, "SYS_ADMIN")
	for _, n := range needed {
		want(t, n.name, capabilities(all&^(1<<n.bit)), Fail, n.name+" is missing: "+n.without)
	}
	want(t, "no limits", otherUsers(all&^(1<<unix.CAP_SYS_RESOURCE)), Warn, "CAP_SYS_RESOURCE")
	want(t, "limits", otherUsers(all), OK, "")
}

func TestClock(t *testing.T) {
	now := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	want(t, "synchronised", clock(now, true), OK, "synchronised")
	want(t, "on its own", clock(now, false), OK, "not synchronised")
	want(t, "after a flat battery", clock(time.Unix(0, 0), true), Fail, "1970")
}

func TestSwap(t *testing.T) {
	want(t, "noswap", swap(nil, false), OK, "noswap")
	want(t, "old kernel, no swap", swap(unix.EINVAL, true), OK, "off")
	want(t, "old kernel, swap", swap(unix.EINVAL, false), Fail, "reach the disk")
	want(t, "no right", swap(unix.EPERM, true), Fail, "permitted")
}

func TestDisk(t *testing.T) {
	want(t, "enough", disk(80e9, 1e6, true), OK, "80.0 GB")
	want(t, "little", disk(1e9, 1e6, true), Warn, "1.0 GB")
	want(t, "nothing", disk(1e6, 1e6, true), Fail, "0.0 GB")
	want(t, "no inodes", disk(80e9, 5, true), Fail, "5 files")
	want(t, "inodes not counted", disk(80e9, 0, false), OK, "80.0 GB")
	want(t, "a path that isn't there", Disk(t.TempDir()+"/not/there").Run(t.Context()), Disk("/tmp").Run(t.Context()).Status, "free")
}

// root runs the checks of this machine that need it; these tests do, as Diapause.
func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts and makes namespaces: run it as root")
	}
}

func TestThisMachine(t *testing.T) {
	root(t)
	s := scratch(t, t.TempDir()+"/data")
	for _, c := range []Check{Kernel(), Privileges(), Capabilities(), Clock(), Namespaces(), Overlay(s), Swap(s)} {
		if r := c.Run(t.Context()); r.Status != OK {
			t.Errorf("%s: %s: %s", c.Name, r.Status, r.Detail)
		}
	}
	for _, c := range []Check{OtherUsers(), Userfaultfd(), FUSE()} {
		r := c.Run(t.Context())
		if r.Status != OK && r.Status != Warn {
			t.Errorf("%s: %s: %s", c.Name, r.Status, r.Detail)
		}
		want(t, c.Name, r, r.Status, "")
	}
}

func TestIsolatedMountsAreSeenByNoOther(t *testing.T) {
	root(t)
	dir := t.TempDir()
	// Often enough that the main thread has its turn.
	for range 20 {
		err := isolated(func() error {
			err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
			return errors.Join(err, os.WriteFile(dir+"/inside", nil, 0o600))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("outside are %v, %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("the mount is seen by the process (%v)", err)
	}
}

func TestOverlayNamesWhatItCouldNot(t *testing.T) {
	root(t)
	s := scratch(t, t.TempDir()+"/data")
	if _, err := s.Make("overlay"); err != nil {
		t.Fatal(err)
	}
	want(t, "no place", Overlay(s).Run(t.Context()), Fail, "scratch directory")
}
