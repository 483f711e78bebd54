package shim

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// TestStateOnFullDisk has the next states of a session written where a disk has no room left: it
// can be thawed and stopped there.
func TestStateOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("%v (this needs root)", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	f := newStateFile(Setup{Run: dir, UID: "u", Epoch: 3, Boot: schemas.BootClean})
	if err := f.begin(4711); err != nil {
		t.Fatal(err)
	}
	rest, err := os.Create(filepath.Join(dir, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	for err == nil {
		_, err = rest.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := errors.Join(f.fence(1<<62), f.end(schemas.ExitStatus{Code: 9, Reason: "it ended"}, true)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.path)
	var got State
	if err := errors.Join(err, json.Unmarshal(b, &got)); err != nil || got.Epoch != 1<<62 || got.Exit == nil || got.Exit.Code != 9 || !got.Lost {
		t.Errorf("its state is %+v, %v", got, err)
	}
	if err := f.fence(5); !errors.Is(err, driver.ErrStale) {
		t.Errorf("an older order gives %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%d files are there, %v", len(left), err)
	}
}
