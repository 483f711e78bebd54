package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 2 * time.Minute

// The programs, and a directory that sessions see.
var older, newer, dir string

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests:", err)
		os.Exit(1)
	}
	code := dockertest.Run(m)
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepare() (err error) {
	if dir, err = stack.Dir(); err != nil {
		return err
	}
	if newer, err = stack.Build(dir); err != nil {
		return err
	}
	older, err = build()
	return err
}

// build builds the older program, of a commit if one is given.
func build(commit ...string) (string, error) {
	install := exec.Command("./install.sh", commit...)
	install.Stderr = os.Stderr
	out, err := install.Output()
	if err != nil {
		return "", fmt.Errorf("build the older program: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// installation is one data directory, which the older program serves first.
type installation struct {
	*stack.Stack
	t      *testing.T
	engine *dockertest.Engine // nil without one
}

// install starts the older program on an empty data directory.
func install(t *testing.T, env ...string) *installation {
	t.Helper()
	return installOf(t, older, dockertest.Shared(t), env...)
}

// installOf starts a program on an empty data directory.
func installOf(t *testing.T, program string, engine *dockertest.Engine, env ...string) *installation {
	t.Helper()
	at, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		t.Fatal(err)
	}
	s := stack.New(program, filepath.Join(at, "data"))
	s.Dir, s.Env = dir, append(os.Environ(), env...)
	i := &installation{s, t, engine}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("clean up: %v", err)
		}
		if t.Failed() {
			t.Logf("the daemons printed:\n%s", s.Log())
		}
	})
	i.up()
	return i
}

func (i *installation) up() {
	i.t.Helper()
	docker := "none"
	if i.engine != nil {
		docker = i.engine.URL
	}
	if err := i.Up("--docker", docker); err != nil {
		i.t.Fatal(err)
	}
}

// upgrade ends the older daemon, as it is asked to or by force, and starts the newer one.
func (i *installation) upgrade(kill bool) {
	i.t.Helper()
	var err error
	if kill {
		err = i.Kill()
	} else if i.must("down"); err == nil {
		err = i.Wait()
	}
	if err != nil {
		i.t.Fatal(err)
	}
	i.Program, i.Env = newer, nil
	i.up()
}

func (i *installation) must(args ...string) string {
	i.t.Helper()
	out, err := i.Must(args...)
	if err != nil {
		i.t.Fatal(err)
	}
	return out
}

func (i *installation) view(name string) schemas.View {
	i.t.Helper()
	v, err := i.View(name)
	if err != nil {
		i.t.Fatal(err)
	}
	return v
}

// attach types into the terminal of a session, through a client of its own.
func (i *installation) attach(name, text string) {
	i.t.Helper()
	cmd := exec.CommandContext(i.t.Context(), i.Program, "--data", i.Data, "attach", name)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		i.t.Fatalf("attach to session %s: %v: %s", name, err, out)
	}
}

// is fails the test unless a session is in a state.
func (i *installation) is(name string, want schemas.State) schemas.View {
	i.t.Helper()
	v := i.view(name)
	if v.State != want {
		i.t.Fatalf("session %s is %s (%s), want %s", name, v.State, v.LastTransition.Reason, want)
	}
	return v
}

// until waits for a condition.
func (i *installation) until(what string, is func() bool) {
	i.t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			i.t.Fatalf("%s: not after %s", what, limit)
		}
	}
}
