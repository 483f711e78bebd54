package dir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/diapause/diapause/objectstore"
)

// crashVar makes the test binary a writer that never comes to an end.
const crashVar = "DIAPAUSE_TEST_WRITE_FOREVER"

func TestMain(m *testing.M) {
	if root := os.Getenv(crashVar); root != "" {
		writeForever(root)
	}
	os.Exit(m.Run())
}

// writeForever puts an object whose reader, once some of it is written, says so
// and then waits to be killed.
func writeForever(root string) {
	s, err := Open(root)
	if err == nil {
		err = s.Put(context.Background(), "crashed", io.MultiReader(io.LimitReader(zeroReader{}, 1<<20), &waiter{}), 2<<20)
	}
	fmt.Println("error:", err)
	os.Exit(1)
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type waiter struct{}

func (*waiter) Read([]byte) (int, error) {
	fmt.Println("writing")
	_, err := io.Copy(io.Discard, os.Stdin)
	return 0, errors.Join(errors.New("not killed"), err)
}

// A writer in another process is left alone while it lives; what it leaves when
// it is killed is removed.
func TestKilledWriter(t *testing.T) {
	root := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashVar+"="+root)
	if _, err := cmd.StdinPipe(); err != nil { // open until Wait
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "writing\n" {
		t.Errorf("the writer says %q, error %v", line, err)
	}
	open(t, root)
	if left := temps(t, root); len(left) != 1 {
		t.Errorf("unfinished files while it writes: %v, want one", left)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	if _, err := open(t, root).Get(t.Context(), "crashed", 0, -1); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("get: error %v, want ErrNotFound", err)
	}
	wantNoTemp(t, root)
}
