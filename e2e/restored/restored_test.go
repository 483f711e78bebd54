package restored

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// life is one data directory whose sessions went through everything since a backup
// of its NATS store was made.
type life struct {
	t *testing.T
	*stack.Stack
	backup   string
	counters map[string]*counter
}

// lived makes sessions, takes the backup, and goes on: what ran is suspended, what
// slept runs, one is new, one is gone, one has been to sleep and back.
func lived(t *testing.T) *life {
	t.Helper()
	s := stack.New(built.program, filepath.Join(built.dir, t.Name()))
	s.Dir = built.dir
	l := &life{t: t, Stack: s, backup: s.Data + ".backup", counters: map[string]*counter{}}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("clean up: %v", err)
		}
		if t.Failed() {
			t.Logf("the daemon printed:\n%s", s.Log())
		}
	})
	l.up()
	for _, name := range []string{"runs", "sleeps", "slept", "again", "gone"} {
		l.start(name)
	}
	l.must("suspend", "slept")
	l.down()
	if err := os.CopyFS(l.backup, os.DirFS(filepath.Join(s.Data, "nats"))); err != nil {
		t.Fatal(err)
	}
	l.up()
	l.start("new")
	l.must("suspend", "sleeps")
	l.must("ensure", "slept")
	l.must("suspend", "again")
	l.must("ensure", "again")
	l.must("rm", "--yes", "gone")
	l.must("checkpoint", "runs")
	for _, name := range []string{"runs", "slept", "again", "new"} {
		l.counters[name].check(l)
	}
	l.down()
	return l
}

func (l *life) up(args ...string) {
	l.t.Helper()
	if err := l.Up(args...); err != nil {
		l.t.Fatal(err)
	}
}

// down ends the daemon as a crash does: sessions run on.
func (l *life) down() {
	l.t.Helper()
	if err := l.Kill(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) must(args ...string) string {
	l.t.Helper()
	out, err := l.Must(args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

func (l *life) start(name string) {
	l.t.Helper()
	l.must("run", "--name", name, "--idle", "never", "--", "sh", "-c", stack.Counting("0.05"))
	l.counters[name] = &counter{name: name}
	l.counters[name].check(l)
}

// lose removes a directory of the data directory while the daemon is down.
func (l *life) lose(dir string) {
	l.t.Helper()
	if err := os.RemoveAll(filepath.Join(l.Data, dir)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) restore() {
	l.t.Helper()
	l.lose("nats")
	if err := os.CopyFS(filepath.Join(l.Data, "nats"), os.DirFS(l.backup)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) is(name string, want schemas.State) schemas.View {
	l.t.Helper()
	v, err := l.View(name)
	if err != nil {
		l.t.Fatal(err)
	}
	if v.State != want {
		l.t.Fatalf("session %s is %s (%s), want %s", name, v.State, v.LastTransition.Reason, want)
	}
	return v
}

// whole checks that every session goes on where it was, once.
func (l *life) whole() {
	l.t.Helper()
	l.is("sleeps", schemas.Suspended)
	for _, name := range []string{"runs", "slept", "again", "new"} {
		l.is(name, schemas.Running)
		l.counters[name].check(l)
	}
	if r := l.Do("show", "gone"); r.Code != 3 {
		l.t.Errorf("the removed session is back: exit status %d, %s%s", r.Code, r.Out, r.Err)
	}
	for _, name := range []string{"sleeps", "new", "again"} {
		l.must("suspend", name)
		l.must("ensure", name)
		l.counters[name].check(l)
	}
	if out, err := l.Must("audit", "--verify"); err != nil {
		l.t.Errorf("%v\n%s", err, out)
	}
}

// An old backup of NATS loses no session, and none runs twice; what nothing was wrong
// with is left as it is the next time.
func TestNATSRestoredFromABackup(t *testing.T) {
	l := lived(t)
	l.restore()
	l.up()
	if !strings.Contains(l.Log(), "recovering: the records of sessions have gone back") {
		t.Error("it isn't said that the records went back")
	}
	l.whole()
	l.down()
	from := len(l.Log())
	l.up()
	if again := l.Log()[from:]; strings.Contains(again, "recovered") || strings.Contains(again, "gone back") {
		t.Errorf("it recovers once more:\n%s", again)
	}
	l.counters["runs"].check(l)
}

// Without any of NATS's store all is found again from what the host remembers.
func TestNATSLost(t *testing.T) {
	l := lived(t)
	l.lose("nats")
	l.up()
	l.whole()
	// Asked for without need, it changes nothing.
	l.down()
	l.up("--recover")
	if !strings.Contains(l.Log(), "recovered: 0 sessions") {
		t.Error("it isn't said that there was nothing to recover")
	}
	l.counters["runs"].check(l)
}

// Without the host's memory, too, nothing is killed: what runs, runs on; what slept
// since the backup is found by its image; and of what can't be told it is said.
func TestHostForgotToo(t *testing.T) {
	l := lived(t)
	l.restore()
	l.lose("ledger")
	l.up()
	for _, name := range []string{"runs", "slept", "again", "new"} {
		l.is(name, schemas.Running)
		l.counters[name].check(l)
	}
	l.is("sleeps", schemas.Suspended)
	l.must("ensure", "sleeps")
	l.counters["sleeps"].check(l)
	r := l.Do("suspend", "new")
	if r.Code == 0 || !strings.Contains(r.Err, "could not be resumed") {
		t.Errorf("a session that couldn't be resumed is suspended: exit status %d: %s", r.Code, r.Err)
	}
	l.counters["new"].check(l)
	// Removed after the backup, and no one remembers that: it is shown as lost.
	l.is("gone", schemas.Failed)
	if out, err := l.Must("audit", "--verify"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
