package datadir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// holdVariable makes the test binary a process that holds the directory that the
// variable names.
const holdVariable = "DIAPAUSE_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdVariable); path != "" {
		hold(path)
		return
	}
	os.Exit(m.Run())
}

func hold(path string) {
	d, err := Open(path, "")
	if err == nil {
		err = d.Serving("nats://127.0.0.1:4223", "nats://127.0.0.1:4222", "")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it
	if err := d.Close(); err != nil {
		os.Exit(1)
	}
}

// holder is another process that has the directory open.
type holder struct {
	*exec.Cmd
	stdin io.Closer
}

func startHolder(t *testing.T, path string) holder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdVariable+"="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = cmd.Wait() }) // a test may have waited already
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("the other process said %q (%v), want that it holds the directory", line, err)
	}
	return holder{cmd, stdin}
}

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // a test may have closed it already
	return d
}

// initialised gives a directory that was set up and closed.
func initialised(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantRefusal checks an error's kind, and that its text or its hint has what helps.
func wantRefusal(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error()+"\n"+schemas.HintOf(err), text) {
			t.Errorf("error %q with the hint %q doesn't say %q", err, schemas.HintOf(err), text)
		}
	}
}

// contents gives everything that is to be seen of a directory.
func contents(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&all, name, info.Mode(), info.ModTime().UnixNano())
		if e.Type().IsRegular() {
			text, err := os.ReadFile(name)
			fmt.Fprintf(&all, "%x\n", text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
