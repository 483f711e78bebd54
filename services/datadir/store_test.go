package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheStoreStaysTheSame(t *testing.T) {
	d := open(t, initialised(t))
	for range 2 {
		if err := d.UseStore("s3://b at h", false); err != nil {
			t.Fatal(err)
		}
	}
	err := d.UseStore("objects", false)
	if !errors.Is(err, ErrOtherStore) || !strings.Contains(err.Error(), "s3://b at h") {
		t.Errorf("another store: %v, want ErrOtherStore naming the first", err)
	}
	if err := d.UseStore("objects", true); err != nil {
		t.Errorf("after a move: %v", err)
	}
	pack := d.Join(OwnObjects, "acme", "pack")
	if err := errors.Join(os.MkdirAll(filepath.Dir(pack), 0o700), os.WriteFile(pack, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := d.UseStore("s3://b at h", false); !errors.Is(err, ErrOtherStore) {
		t.Errorf("the first one again: %v, want ErrOtherStore", err)
	}
	// A start that failed before anything was stored doesn't fix the store.
	if err := errors.Join(os.Remove(pack), d.UseStore("s3://b at h", false)); err != nil {
		t.Errorf("nothing was stored: %v", err)
	}
}
