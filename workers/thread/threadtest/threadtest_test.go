package threadtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// program starts a cat that is killed when its parent's thread ends.
func program(t *testing.T, start func(*exec.Cmd) error) (in io.Writer, out *bufio.Reader, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	return stdin, bufio.NewReader(stdout), cmd
}

// A program outlives the thread of the caller.
func TestStartOutlivesThread(t *testing.T) {
	var in io.Writer
	var out *bufio.Reader
	for range 8 {
		if err := thread.Discard(func() error {
			in, out, _ = program(t, Start)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(in, "there\n")
		if line, err := out.ReadString('\n'); line != "there\n" {
			t.Fatalf("it answers %q, %v", line, err)
		}
	}
}

// A program is in the network namespace of the caller, and the next one of another caller isn't.
func TestStartInCallersNetwork(t *testing.T) {
	var inside, there string
	err := thread.Discard(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if there, err = os.Readlink("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		inside = network(t)
		return nil
	})
	if err != nil {
		t.Fatalf("make a network namespace, as root: %v", err)
	}
	if inside != there {
		t.Errorf("the program is in %s, its caller in %s", inside, there)
	}
	if own, _ := os.Readlink("/proc/self/ns/net"); network(t) != own {
		t.Errorf("a program of another caller isn't in %s", own)
	}
}

func network(t *testing.T) string {
	cmd := exec.Command("readlink", "/proc/self/ns/net")
	var b strings.Builder
	cmd.Stdout = &b
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}
