package criu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim/criu/hollow"
)

// wantDiffering wants a suspend refused for what its rehearsal has found, by name, and that
// the session runs on.
func (s *session) wantDiffering(err error, want ...string) {
	s.t.Helper()
	var refused *driver.Error
	if !errors.As(err, &refused) || refused.Kind != driver.Unrestorable {
		s.t.Fatalf("its rehearsal ends with %v", err)
	}
	for _, w := range want {
		if !strings.Contains(refused.Text, w) {
			s.t.Errorf("it is refused with %q, want %q", refused.Text, w)
		}
	}
	if i, err := s.d.Inspect(limited(s.t), s.uid); err != nil || i.State != driver.Running {
		s.t.Errorf("after it the session is %+v, %v", i, err)
	}
	s.nothingLeft()
}

// TestRehearsalFindsAnotherFile has the files that a session has open and mapped changed for
// others of the same names, sizes and modes before they are opened for the copy, one of them for writing.
func TestRehearsalFindsAnotherFile(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "files", schemas.Spec{Command: []string{"/usr/bin/python3", "-c", `
import mmap, os, time
for name in ("open", "mapped", "written"):
    for at in ("/srv/", "/srv/other-"):
        with open(at + name, "wb") as f:
            f.write(b"x" * 8192)
f, h = open("/srv/open", "rb"), open("/srv/written", "r+b")
with open("/srv/mapped", "rb") as g:
    m = mmap.mmap(g.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
print("ready", f.fileno(), h.fileno(), flush=True)
while True:
    time.sleep(1000)`}})
	s.want("ready")
	fds := strings.Fields(output(t, s.d, s.uid))[1:]
	i, err := s.d.Inspect(limited(t), s.uid)
	if err != nil {
		t.Fatal(err)
	}
	change := func(int) {
		for _, name := range []string{"open", "mapped", "written"} {
			dir := fmt.Sprintf("/proc/%d/root/srv/", i.PID)
			if err := unix.Renameat2(unix.AT_FDCWD, dir+name, unix.AT_FDCWD, dir+"other-"+name, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
			}
		}
	}
	err = s.stoppedAt(limited(t), failpoint.ShimRehearses, change)
	s.wantDiffering(err, "fd "+fds[0]+"): inode number is", "fd "+fds[1]+"): inode number is", ", mapping ", "): inode number is")
	change(0)
	s.rehearsed()
}

// TestRehearsalFindsFlags has the flags of a mapping taken out of the image that is rehearsed.
func TestRehearsalFindsFlags(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "flags", schemas.Spec{Command: []string{"/usr/bin/python3", "-c", `
import ctypes, mmap, time
m = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.write(b"x" * (1 << 20))
m.madvise(mmap.MADV_DONTDUMP)
print("ready", ctypes.addressof(ctypes.c_char.from_buffer(m)), flush=True)
while True:
    time.sleep(1000)`}})
	s.want("ready")
	address, err := strconv.ParseUint(strings.Fields(output(t, s.d, s.uid))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	err = s.stoppedAt(limited(t), failpoint.ShimRehearses, func(shimPID int) {
		images := filepath.Join(fmt.Sprintf("/proc/%d/root", shimPID), s.d.dir.session(s.uid), "scratch", "rehearsal", "criu")
		forget(t, images, address)
	})
	s.wantDiffering(err, fmt.Sprintf("mapping %x): mapping's flags is \"\" instead of \"dd from %x to %x\"", address, address, address+1<<20))
	s.rehearsed()
}

// TestRehearsalOfPlainMemory looks at the image of a session without advice about its memory: the
// flags of its mappings, which are slow to read, needn't be compared.
func TestRehearsalOfPlainMemory(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "plain", counting)
	count(t, s.d, s.uid)
	err := s.stoppedAt(limited(t), failpoint.ShimRehearses, func(shimPID int) {
		images, err := filepath.Glob(filepath.Join(fmt.Sprintf("/proc/%d/root", shimPID), s.d.dir.session(s.uid), "scratch", "rehearsal", "criu", "mm-*.img"))
		if err != nil || len(images) == 0 {
			t.Fatalf("its images are %v, %v", images, err)
		}
		for _, name := range images {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if advised, err := hollow.Advised(b); advised || err != nil {
				t.Errorf("%s has advised mappings: %t, %v", name, advised, err)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// forget takes the advice about the mapping at an address out of the images of mappings.
func forget(t *testing.T, images string, address uint64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(images, "mm-*.img"))
	if err != nil {
		t.Fatal(err)
	}
	const start, advice, dontDump = 1 << 3, 9 << 3, 1 << 16
	of := func(tag byte, v uint64) []byte { return binary.AppendUvarint([]byte{tag}, v) }
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(b, of(start, address))
		if at < 0 {
			continue
		}
		was := of(advice, dontDump)
		i := bytes.Index(b[at:], was)
		if i < 0 {
			t.Fatalf("%s says nothing of the advice", file)
		}
		copy(b[at+i:], []byte{advice, 0x80, 0x80, 0})
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no image of %v has the mapping", files)
}
