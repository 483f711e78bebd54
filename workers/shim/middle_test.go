package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// TestMiddleLayerWhereTheLayerIsFull: what doesn't fit into the session's own file system stays in memory,
// and takes none of its room.
func TestMiddleLayerWhereTheLayerIsFull(t *testing.T) {
	p := place{dir: t.TempDir(), own: &layer{at: t.TempDir(), device: "loop0"}}
	file := filepath.Join(p.middle(), "etc/file")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o751), os.WriteFile(file, make([]byte, 1<<20), 0o640)); err != nil {
		t.Fatal(err)
	}
	settled := filepath.Join(p.own.at, "middle")
	for size, want := range map[string]string{"64k": p.middle(), "4m": settled} {
		err := thread.Mounts(func() error {
			if err := unix.Mount("tmpfs", p.own.at, "tmpfs", 0, "size="+size); err != nil {
				return err
			}
			got, err := p.settledMiddle()
			if err != nil || got != want {
				return fmt.Errorf("with %s it is in %q, want %q: %w", size, got, want, err)
			}
			st, err := os.Stat(filepath.Join(settled, "etc/file"))
			if want != settled {
				if !errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("a part of it is left: %w", err)
				}
				return nil
			}
			if err != nil || st.Size() != 1<<20 || st.Mode().Perm() != 0o640 {
				return fmt.Errorf("its file is %+v, %w", st, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
