package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

var built struct{ dir, program string }

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := stack.Dir()
	if err == nil {
		defer os.RemoveAll(dir)
		built.dir = dir
		built.program, err = stack.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests:", err)
		return 1
	}
	return m.Run()
}

// rounds is how often each verb is interrupted.
func rounds() int {
	if os.Getenv("DIAPAUSE_LONG") != "" {
		return 150
	}
	return 6
}

// newRand gives the source of the moments, and says how to have them again.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DIAPAUSE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("DIAPAUSE_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("the moments come from DIAPAUSE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func newStack(t *testing.T) *stack.Stack {
	t.Helper()
	s := stack.New(built.program, filepath.Join(built.dir, t.Name()))
	s.Dir = built.dir
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := s.Close()
		if err != nil {
			t.Errorf("clean up: %v", err)
		}
		if t.Failed() {
			t.Logf("the daemon printed:\n%s", s.Log())
		}
	})
	return s
}

// interrupt begins a verb, kills the daemon after the wait, and starts it again.
// It gives what the verb came to.
func interrupt(t *testing.T, s *stack.Stack, wait time.Duration, args ...string) stack.Result {
	t.Helper()
	came := make(chan stack.Result, 1)
	go func() { came <- s.Do(args...) }()
	time.Sleep(wait) // the moment of the crash
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	r := <-came
	if err := s.Up(); err != nil {
		t.Fatalf("start again after a kill in %v: %v", args, err)
	}
	return r
}

// settle waits until nothing is under way with the session.
func settle(t *testing.T, s *stack.Stack, name string) schemas.View {
	t.Helper()
	var v schemas.View
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		v, err = s.View(name)
		if err == nil && v.Op == "" && v.State != schemas.Starting && v.State != schemas.Suspending && v.State != schemas.Resuming {
			return v
		}
	}
	t.Fatalf("session %s doesn't settle: %s, op %q, %v", name, v.State, v.Op, err)
	return v
}

// awake brings the session to run and checks that it runs once, and has never
// missed or repeated a number.
func awake(t *testing.T, s *stack.Stack, c *counter) {
	t.Helper()
	if _, err := s.Must("ensure", c.name); err != nil {
		t.Fatal(err)
	}
	c.check(t, s)
}

func audit(t *testing.T, s *stack.Stack) {
	t.Helper()
	out, err := s.Must("audit", "--verify")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
