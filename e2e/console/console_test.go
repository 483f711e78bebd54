package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
)

const (
	// limit bounds a browser's test: it is only reached when something is broken.
	limit = 8 * time.Minute
	// asServer is the variable that has this program be the server in a session.
	asServer = "DIAPAUSE_TEST_SERVER"
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
		fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:8080", hello))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// freeAddress is one that is free. Its port isn't one that the kernel gives to connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		l, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		return address
	}
}

// installation is one that serves a console.
type installation struct {
	*stack.Stack
	address string // of its API
}

// up starts one on a data directory of its own. The caller stops it.
func up(t *testing.T) installation {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("sessions take root: run it by e2e/setup/root.sh")
	}
	dir, err := stack.Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := stack.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	i := installation{stack.New(program, dir+"/data"), freeAddress(t)}
	t.Cleanup(i.Destroy)
	if err := i.Up("--http", i.address); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); !strings.Contains(i.Log(), "HTTP API: "); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never says where its API is:\n%s", i.Log())
		}
	}
	return i
}

// fresh is up that is removed with all its sessions when the test ends.
func fresh(t *testing.T) installation {
	t.Helper()
	i := up(t)
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Errorf("%v\n%s", err, i.Log())
		}
	})
	return i
}

// browse gives the command that drives a browser by a program in testdata, which says what is wrong.
func (i installation) browse(ctx context.Context, t *testing.T, script string, more ...string) *exec.Cmd {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err == nil {
		_, err = exec.LookPath("node")
	}
	if err != nil {
		t.Fatalf("%v; `make setup-test` installs it", err)
	}
	cmd := exec.CommandContext(ctx, "node", append([]string{"testdata/" + script, modules(t), i.Program, i.Data, i.address, chromium}, more...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// run runs such a program to its end.
func (i installation) run(t *testing.T, script string, more ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := i.browse(ctx, t, script, more...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, out, i.Log())
	}
	t.Logf("%s", out)
}

// TestConsole uses all of the console.
func TestConsole(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fresh(t).run(t, "console.mjs", self)
}
