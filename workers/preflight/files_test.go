package preflight

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/tree"
)

// A descriptor is another file by the time that it is looked at, as of a shell that has just
// put its output back. What is said of it is of one file, the one that is there.
func TestFileReplacedMeanwhile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	was := filepath.Join(t.TempDir(), "steps")
	l := looker{pid: os.Getpid(), handle: -1}
	defer l.close()
	f, err := l.look(tree.FD{PID: os.Getpid(), Num: int(w.Fd()), Link: was})
	if err != nil {
		t.Fatal(err)
	}
	if f.Link == was || f.Type != unix.S_IFIFO {
		t.Errorf("it says %+v of a pipe", f)
	}
}
