package sparse

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What is written is what was read, and takes room where it isn't zeros only.
func TestCopy(t *testing.T) {
	hole := string(zeros[:])
	for _, content := range []string{"", "short", hole, "start" + hole + hole, strings.Repeat(hole, 16) + "end"} {
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		asked := int64(0)
		n, err := Copy(f, strings.NewReader(content), func(n int64) error { asked += n; return nil })
		got, readErr := io.ReadAll(f)
		if err := errors.Join(err, readErr); err != nil || n != int64(len(content)) || !bytes.Equal(got, []byte(content)) {
			t.Errorf("of %d bytes %d were written, %d are there, %v", len(content), n, len(got), err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 > asked+64<<10 {
			t.Errorf("of %d bytes %d were asked for, and %d blocks are taken, %v", len(content), asked, st.Blocks, err)
		}
	}
}

func TestCopyWithoutRoom(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	none := errors.New("no room")
	if n, err := Copy(f, strings.NewReader(string(zeros[:])+"more"), func(int64) error { return none }); !errors.Is(err, none) || n != int64(len(zeros)) {
		t.Errorf("without room it has written %d bytes, %v", n, err)
	}
	if n, err := Copy(f, io.MultiReader(strings.NewReader("part"), failing{}), nil); !errors.Is(err, unix.EIO) || n != 4 {
		t.Errorf("of a reader that fails it has written %d bytes, %v", n, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, unix.EIO }
