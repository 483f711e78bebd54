package criu

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/shim"
)

// TestMain lets the test binary be the shim, as the program that uses the driver
// is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:]))
	}
	if len(os.Args) == 4 && roles[os.Args[1]] != nil {
		os.Exit(play(os.Args[1], os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// roles are what the test binary can be made to do in a process of its own, with
// a driver on a data directory.
var roles = map[string]func(t *tester, d *Driver) error{}

// tester is what a role has of a test.
type tester struct {
	ctx context.Context
}

func play(role, data, instance string) int {
	ctx, cancel := context.WithTimeout(context.Background(), drivertest.Limit)
	defer cancel()
	d, err := New(Options{Data: data, Instance: instance, Way: driver.Way(os.Getenv(wayVariable))})
	if err == nil {
		err = roles[role](&tester{ctx}, d)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// open makes a driver on a data directory.
func open(t *testing.T, data string) *Driver {
	t.Helper()
	// Tests run beside each other, with sessions of the same name.
	return openWay(t, data, driver.Way(os.Getenv(wayVariable)), 0)
}

// wayVariable makes all tests take one way: make the image of each session in
// memory, or stream it.
const wayVariable = "DIAPAUSE_TEST_WAY"

func openWay(t *testing.T, data string, way driver.Way, room int64) *Driver {
	t.Helper()
	h := fnv.New64a()
	fmt.Fprint(h, os.Getpid(), data)
	d, err := New(Options{Data: data, Instance: fmt.Sprintf("test-%x", h.Sum64()), Way: way, Room: room})
	if err != nil {
		t.Fatalf("%v (these tests run sessions: they need root and criu)", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// counting is a session that counts, with a word to end it: a file.
var counting = schemas.Spec{Command: []string{"/bin/sh", "-c", "i=0; while ! [ -e /tmp/end ]; do i=$((i+1)); echo $i; sleep 0.01; done; exit 7"}}

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, host(open))
}

// host makes hosts whose drivers open gives.
func host(open func(t *testing.T, data string) *Driver) func(t *testing.T) drivertest.Host {
	return func(t *testing.T) drivertest.Host {
		data := t.TempDir()
		return drivertest.Host{
			Open:     func(t *testing.T) driver.Driver { return open(t, data) },
			Counting: counting,
			Missing:  schemas.Spec{Command: []string{"/no/such/command"}},
			Count:    func(t *testing.T, d driver.Driver, uid schemas.UID) int { return count(t, d.(*Driver), uid) },
			End:      func(t *testing.T, d driver.Driver, uid schemas.UID) { end(t, d.(*Driver), uid) },
		}
	}
}

// end tells a counting session to end. It may be gone before the command that
// tells it so has been waited for.
func end(t *testing.T, d *Driver, uid schemas.UID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), drivertest.Limit)
	defer cancel()
	conn, err := d.Dial(ctx, uid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attach.Do(conn, attach.Request{Op: attach.OpExec, Argv: []string{"touch", "/tmp/end"}}, attach.Streams{}); err != nil {
		t.Logf("the session ended under its last command: %v", err)
	}
}

// request sends one request to a session and returns what it wrote.
func request(t *testing.T, d *Driver, uid schemas.UID, r attach.Request, stdin string) (string, schemas.ExitStatus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), drivertest.Limit)
	defer cancel()
	conn, err := d.Dial(ctx, uid)
	if err != nil {
		t.Fatalf("dial session %s: %v", uid, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var out bytes.Buffer
	s := attach.Streams{Stdout: &out, Stderr: &out}
	if stdin != "" {
		r.Stdin, s.Stdin = true, strings.NewReader(stdin)
	}
	exit, err := attach.Do(conn, r, s)
	if err != nil {
		t.Fatalf("%s in session %s: %v\n%s", r.Op, uid, err, out.String())
	}
	return out.String(), exit
}

// run runs a command in a session and returns its output; it must succeed.
func run(t *testing.T, d *Driver, uid schemas.UID, argv ...string) string {
	t.Helper()
	out, exit := request(t, d, uid, attach.Request{Op: attach.OpExec, Argv: argv}, "")
	if exit.Code != 0 {
		t.Fatalf("%v in session %s: exit %+v\n%s", argv, uid, exit, out)
	}
	return out
}

// output is all that a session's main command wrote, as far as it is kept.
func output(t *testing.T, d *Driver, uid schemas.UID) string {
	t.Helper()
	out, _ := request(t, d, uid, attach.Request{Op: attach.OpOutput, Tail: -1}, "")
	return out
}

// waitFor waits until a session's output fulfils a condition, and returns it.
func waitFor(t *testing.T, d *Driver, uid schemas.UID, what string, ok func(output string) bool) string {
	t.Helper()
	for deadline := time.Now().Add(drivertest.Limit); ; time.Sleep(5 * time.Millisecond) {
		out := output(t, d, uid)
		if ok(out) {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("session %s doesn't come to %s; its output:\n%s", uid, what, out)
		}
	}
}

// count is the last number that a counting session wrote, after one more step.
// Numbers in between must all be there, over suspends too.
func count(t *testing.T, d *Driver, uid schemas.UID) int {
	t.Helper()
	before := len(strings.Fields(output(t, d, uid)))
	out := waitFor(t, d, uid, "the next number", func(out string) bool {
		return strings.HasSuffix(out, "\n") && len(strings.Fields(out)) > before
	})
	numbers := strings.Fields(out)
	for i, s := range numbers {
		if n, err := strconv.Atoi(s); err != nil || n != i+1 {
			t.Fatalf("number %d of session %s's output is %q", i+1, uid, s)
		}
	}
	return len(numbers)
}
