package examples

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
)

// patience bounds every wait; a passing test never waits so long.
const patience = time.Minute

const top = "../../events/examples"

// bench is a running Diapause with one session, "work", that sleeps.
type bench struct {
	*stack.Stack
	t   *testing.T
	dir string
}

func newBench(t *testing.T) bench {
	t.Helper()
	s, dir := stack.Fresh(t)
	b := bench{s, t, dir}
	if err := b.Up(); err != nil {
		t.Fatal(err)
	}
	b.must("run", "--name", "work", "--idle", "1s", "--", "sleep", "1000")
	return b
}

func (b bench) must(args ...string) string {
	b.t.Helper()
	out, err := b.Must(args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// is waits for a state.
func (b bench) is(want string) {
	b.t.Helper()
	b.until(want, func() bool {
		v, err := b.View("work")
		return err == nil && string(v.State) == want && v.Op == ""
	})
}

// explained waits until the explanation says something.
func (b bench) explained(want string) {
	b.t.Helper()
	b.until(want, func() bool { return strings.Contains(b.Do("explain", "work").Out, want) })
}

func (b bench) until(what string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("the session doesn't come to be %q:\n%s", what, b.Do("explain", "work").Out)
		}
	}
}

// start runs an example; the test ends it if it doesn't end by itself.
func (b bench) start(env, dir string, in io.Reader, name string, args ...string) *exec.Cmd {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), env), in
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		b.t.Fatalf("start %s: %v: `make setup-test` installs what is missing", name, err)
	}
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("%s printed:\n%s", name, out.String())
		}
	})
	return cmd
}

func (b bench) ended(cmd *exec.Cmd) {
	b.t.Helper()
	if err := cmd.Wait(); err != nil {
		b.t.Errorf("%s ended with %v", cmd.Path, err)
	}
}

func TestExamples(t *testing.T) {
	b := newBench(t)
	b.must("suspend", "work")
	b.shell()
	b.node()
	b.server()
	b.agents()
}

func (b bench) shell() {
	b.t.Helper()
	address := "NATS_URL=" + b.URL
	script := filepath.Join(top, "shell", "activity.sh")
	b.ended(b.start(address, "", nil, script, "work.hold.deploy", `{"ttl":"10m","reason":"deploys"}`))
	b.ended(b.start(address, "", nil, script, "work.input"))
	b.is("running")
	b.explained("deploys")
	b.ended(b.start(address, "", nil, script, "work.hold.deploy", `{"released":true}`))
	b.is("suspended")
}

// nodeProgram has an example in Node.js beside the client that it needs.
func (b bench) nodeProgram(name string) {
	b.t.Helper()
	modules := os.Getenv("DIAPAUSE_PREFIX")
	if modules == "" {
		modules = "/opt/diapause"
	}
	modules = filepath.Join(modules, "node", "example", "node_modules")
	if _, err := os.Stat(modules); err != nil {
		b.t.Fatalf("%v: e2e/setup/node.sh installs the official NATS client", err)
	}
	program, err := os.ReadFile(filepath.Join(top, "node", name))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, name), program, 0o644)
	}
	if err == nil {
		err = os.Symlink(modules, filepath.Join(b.dir, "node_modules"))
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		b.t.Fatal(err)
	}
}

func (b bench) node() {
	b.t.Helper()
	b.nodeProgram("activity.mjs")
	in, typed := io.Pipe()
	cmd := b.start("NATS_URL="+b.URL, b.dir, in, "node", "activity.mjs", "work")
	b.is("running")
	b.explained("an agent's turn")
	if _, err := io.WriteString(typed, "ls\n"); err != nil {
		b.t.Error(err)
	}
	b.explained("input")
	typed.Close()
	b.ended(cmd)
	b.is("suspended")
	if stats := b.must("stats"); !strings.Contains(stats, "1 of them CloudEvents") {
		b.t.Errorf("the CloudEvent of the example wasn't one:\n%s", stats)
	}
}

func (b bench) server() {
	b.t.Helper()
	program, address := b.goProgram(), freeAddress(b.t)
	cmd := b.start("NATS_URL="+b.URL, "", nil, program, address)
	defer func() {
		_ = cmd.Process.Kill() // it serves until someone stops it
		_ = cmd.Wait()
	}()
	b.until("served", func() bool { return get(address, "/healthz") == nil })
	if v, err := b.View("work"); err != nil || v.State != "suspended" {
		b.t.Errorf("after a health check it is %s, %v", v.State, err)
	}
	b.visit(address)
}

// visit has the server of the examples work for a visitor, and then not.
func (b bench) visit(address string) {
	b.t.Helper()
	body, sent := io.Pipe()
	worked := make(chan error, 1)
	go func() {
		resp, err := http.Post("http://"+address+"/s/work", "text/plain", body)
		if err == nil {
			resp.Body.Close()
			http.DefaultClient.CloseIdleConnections() // an open one keeps the session awake that publishes the port
		}
		worked <- err
	}()
	b.is("running")
	b.explained("works for a visitor")
	sent.Close()
	if err := <-worked; err != nil {
		b.t.Error(err)
	}
	b.is("suspended")
}

// goProgram builds the example in Go.
func (b bench) goProgram() string {
	b.t.Helper()
	program := filepath.Join(b.dir, "example")
	b.ended(b.start("CGO_ENABLED=0", filepath.Join(top, "go"), nil, "go", "build", "-o", program, "."))
	return program
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(address, path string) error {
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		return err
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return nil
}
