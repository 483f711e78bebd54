package script

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/diapause/diapause/events/failpoint"
)

// defaultVariables are those that the daemon has defaults from, as they are set in the script when it is started.
var defaultVariables = []string{
	"TERMINAL_MAX_ACTIVE_SESSIONS", "TERMINAL_HIBERNATE_AFTER_MINS", "TERMINAL_ARCHIVE_AFTER_DAYS", "TERMINAL_MAX_TOTAL_SESSIONS", "IDLE_SNAPSHOT_DELAY_SECONDS", "SANDBOX_TIMEOUT_SECONDS", "DIAPAUSE_PRESET", "DIAPAUSE_SLOTS",
}

func cmdUp(ts *testscript.TestScript, neg bool, args []string) {
	s := stackOf(ts)
	s.Env = append(slices.Clone(s.Env), "PATH="+ts.Getenv("PATH"))
	for _, name := range []string{failpoint.Variable, "DIAPAUSE_CRIU"} {
		if value := ts.Getenv(name); value != "" {
			s.Env = append(slices.Clone(s.Env), name+"="+value)
		}
	}
	for _, name := range defaultVariables {
		s.Env = append(s.Env, name+"="+ts.Getenv(name))
	}
	err := s.Up(args...)
	if neg {
		if err == nil {
			ts.Fatalf("the daemon is up")
		}
		ts.Logf("%v", err)
		return
	}
	ts.Check(err)
	ts.Setenv("DIAPAUSE_HOST", s.Host)
	ts.Setenv("SERVER", s.URL)
	ts.Setenv("SECURE", s.Secure)
	ts.Setenv("ADDRESS", strings.TrimPrefix(s.URL, "nats://"))
}

func cmdDown(ts *testscript.TestScript, neg bool, args []string) {
	s := stackOf(ts)
	err := ts.Exec("diapause", append([]string{"down"}, args...)...)
	if neg {
		if err == nil {
			ts.Fatalf("the daemon was stopped")
		}
		return
	}
	ts.Check(err)
	ts.Check(s.Wait())
}

func cmdKillUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: killup")
	}
	ts.Check(stackOf(ts).Kill())
}

// cmdEnded waits for a daemon that ends by itself.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended STATUS PATTERN")
	}
	s := stackOf(ts)
	var exit *exec.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("the daemon ended with %v, want exit status %s", err, args[0])
	}
	if !compile(ts, args[1]).MatchString(s.Log()) {
		ts.Fatalf("the daemon didn't say %s:\n%s", args[1], s.Log())
	}
}
