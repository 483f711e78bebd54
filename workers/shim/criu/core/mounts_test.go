package core

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func mountsImage(t *testing.T) string {
	t.Helper()
	var all []message
	for _, m := range []struct {
		id, parent uint64
		point      string
	}{{7, 5, "/proc/scsi/below"}, {1, 0, "/"}, {2, 1, "/proc"}, {5, 2, "/proc/scsi"}, {6, 2, "/proc/acpi"}, {3, 1, "./sys"}, {4, 1, "/var/lib/diapause"}} {
		all = append(all, message{numberField(1, 3), numberField(mountID, m.id), numberField(mountParent, m.parent), bytesField(mountPoint, []byte(m.point))})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mountpoints-12.img"), encodeFiles(make([]byte, headerSize), all), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMountPoints(t *testing.T) {
	points, err := MountPoints(mountsImage(t))
	if want := []string{"/proc", "/sys", "/var/lib/diapause"}; err != nil || !slices.Equal(points, want) {
		t.Errorf("mounted in the root is %q, %v; want %q", points, err, want)
	}
}

func TestKeepMounts(t *testing.T) {
	dir := mountsImage(t)
	if err := KeepMounts(dir, func(p string) bool { return p != "/proc/scsi" }); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "mountpoints-12.img"))
	if err != nil {
		t.Fatal(err)
	}
	left, err := parseFiles(b)
	var points []string
	for _, m := range left {
		points = append(points, pointOf(m))
	}
	if want := []string{"/", "/proc", "/proc/acpi", "/sys", "/var/lib/diapause"}; err != nil || !slices.Equal(points, want) {
		t.Errorf("left is %q, %v; want %q", points, err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "mountpoints-13.img"), []byte("nonsense that is long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := KeepMounts(dir, func(string) bool { return true }); err == nil {
		t.Error("an image that can't be decoded is taken")
	}
}

func FuzzMountPoints(f *testing.F) {
	f.Add([]byte{})
	f.Add(encodeFiles(make([]byte, headerSize), []message{{numberField(mountID, 1), bytesField(mountPoint, []byte("/"))}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "mountpoints-1.img")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := MountPoints(filepath.Dir(name))
		if kept := KeepMounts(filepath.Dir(name), func(p string) bool { return len(p)%2 == 0 }); (kept == nil) != (err == nil) {
			t.Errorf("its mounts: %v; without some of them: %v", err, kept)
		}
		if err != nil {
			return
		}
		if _, err := MountPoints(filepath.Dir(name)); err != nil {
			t.Errorf("without some of them it can't be read: %v", err)
		}
	})
}
