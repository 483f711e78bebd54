package script

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/diapause/diapause/schemas"
)

// Polls have a long deadline for a slow machine, and a short step: states may pass soon.
// What a command prints stays, and a command takes a part of a core.
const (
	deadline = 60 * time.Second
	step     = 30 * time.Millisecond
	longStep = 100 * time.Millisecond
)

func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
	if cause := saidTwice(ts.ReadFile("stderr")); cause != "" {
		ts.Fatalf("standard error says %q twice", cause)
	}
}

func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] until PATTERN CMD [ARG…]")
	}
	pattern := compile(ts, args[0])
	for end := time.Now().Add(deadline); ; time.Sleep(longStep) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) != neg {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s doesn't come to print %s: %v", args[1], args[0], err)
		}
	}
}

func compile(ts *testscript.TestScript, pattern string) *regexp.Regexp {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	return re
}

func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfor NAME STATE")
	}
	var v schemas.View
	var err error
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(step) {
		if v, err = stackOf(ts).View(args[0]); err == nil && string(v.State) == args[1] && (v.Op == "" || v.State == schemas.Suspending) {
			return
		}
	}
	ts.Fatalf("session %s doesn't come to be %s: %s, %v", args[0], args[1], v.State, err)
}

func cmdStays(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: stays NAME STATE FOR")
	}
	long, err := time.ParseDuration(args[2])
	ts.Check(err)
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(step) {
		v, err := stackOf(ts).View(args[0])
		ts.Check(err)
		if string(v.State) != args[1] {
			ts.Fatalf("session %s is %s: %s", args[0], v.State, v.LastTransition.Reason)
		}
	}
}

func cmdCounter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: counter NAME [AT-LEAST]")
	}
	least := 1
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		least = n
	}
	first := 0
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(longStep) {
		r := stackOf(ts).Do("logs", args[0])
		if r.Code != 0 {
			ts.Fatalf("logs: exit status %d: %s", r.Code, r.Err)
		}
		n := counted(ts, r.Out)
		if first == 0 {
			first = n
		}
		if n >= least && n > first {
			ts.Setenv("N", strconv.Itoa(n))
			return
		}
	}
	ts.Fatalf("session %s doesn't count on from %d to %d", args[0], first, least)
}

// counted checks that the numbers follow each other and gives the last.
func counted(ts *testscript.TestScript, out string) int {
	out = out[:strings.LastIndex(out, "\n")+1]
	n := 0
	for _, word := range strings.Fields(out) {
		i, err := strconv.Atoi(word)
		if err != nil || i != n+1 {
			ts.Fatalf("%q follows %d in what the session printed", word, n)
		}
		n = i
	}
	return n
}

func cmdHostPIDs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hostpids VAR NAME")
	}
	v, err := stackOf(ts).View(args[1])
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(stackOf(ts).Processes(v.UID)))
}
