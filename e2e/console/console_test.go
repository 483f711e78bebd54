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

// TestConsole drives a browser by testdata/console.mjs, which says what is wrong.
func TestConsole(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v; `make setup-test` installs it", err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatalf("%v; `make setup-test` installs it", err)
	}
	if os.Getuid() != 0 {
		t.Fatal("sessions take root: run it by e2e/setup/root.sh")
	}
	packages := modules(t)
	dir, err := stack.Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := stack.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New(program, dir+"/data")
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("%v\n%s", err, s.Log())
		}
	})
	address := freeAddress(t)
	if err := s.Up("--http", address); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); !strings.Contains(s.Log(), "HTTP API: "); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never says where its API is:\n%s", s.Log())
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "testdata/console.mjs", packages, program, s.Data, address, self, chromium)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, out, s.Log())
	}
	t.Logf("%s", out)
}
