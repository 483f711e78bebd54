package forged

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// words are what an error has to say, one of them: why the image can't be used.
var words = []string{"image is damaged", "image is not trusted", "no key for the image", "not found"}

func TestRefused(t *testing.T) {
	for _, way := range []string{"memory", "stream"} {
		t.Run(way, func(t *testing.T) { testRefused(t, way) })
	}
}

func testRefused(t *testing.T, way string) {
	f := newFixture(t, way)
	f.begin(t, "victim")
	f.begin(t, "other")
	view, err := f.View("victim")
	if err != nil {
		t.Fatal(err)
	}
	other, err := f.View("other")
	if err != nil {
		t.Fatal(err)
	}
	s := store{root: filepath.Join(f.Data, "objects", "default"), lineage: string(view.UID), other: string(other.UID), head: view.Snapshot.ID}
	good := s.read(t)
	cases, err := forgeries(good, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		s.write(t, good, cases[name])
		f.wantRefused(t, name)
		s.write(t, cases[name], good)
	}
	started := f.started(t)
	if _, err := f.Must("resume", "victim"); err != nil {
		t.Fatalf("with its own bytes again: %v", err)
	}
	if f.started(t) == started {
		t.Error("criu was started without the wrapper's notice")
	}
	if out, err := f.Must("exec", "victim", "--", "cat", "/tmp/mark"); err != nil || out != "victim\n" {
		t.Errorf("the session that came back has %q in its file, error %v", out, err)
	}
}

// fixture is a daemon whose starts of criu are noted.
type fixture struct {
	*stack.Stack
	notes string
}

func newFixture(t *testing.T, way string) *fixture {
	t.Helper()
	s, dir := stack.Fresh(t)
	f := &fixture{s, filepath.Join(dir, "starts")}
	wrapper := filepath.Join(dir, "criu")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\nexec %s \"$@\"\n", f.notes, local.Criu())
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	f.Env = append(os.Environ(), "DIAPAUSE_CRIU="+wrapper)
	if err := f.Up("--capture", way); err != nil {
		t.Fatal(err)
	}
	return f
}

// started counts the starts of criu, but for those that only ask for its version.
func (f *fixture) started(t *testing.T) int {
	t.Helper()
	notes, err := os.ReadFile(f.notes)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(notes), "\n") - strings.Count(string(notes), "--version\n")
}

// begin has a session with two snapshots.
func (f *fixture) begin(t *testing.T, name string) {
	t.Helper()
	must := func(args ...string) {
		t.Helper()
		if _, err := f.Must(args...); err != nil {
			t.Fatal(err)
		}
	}
	must("run", "--name", name, "--idle", "never", "--cwd", "/", "--", "/bin/sh", "-c", "echo "+name+" >/tmp/mark; exec sleep 100000")
	for end := time.Now().Add(time.Minute); f.Do("exec", name, "--", "test", "-s", "/tmp/mark").Code != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("session %s doesn't begin", name)
		}
	}
	must("checkpoint", name)
	must("exec", name, "--", "sh", "-c", "head -c 300000 /dev/urandom >/tmp/more")
	must("suspend", name)
}

// wantRefused asks for the session, whose image is not what it was.
func (f *fixture) wantRefused(t *testing.T, what string) {
	t.Helper()
	before := f.started(t)
	r := f.Do("resume", "victim")
	if r.Code == 0 {
		t.Fatalf("%s: the session was resumed", what)
	}
	if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(r.Err, w) }) {
		t.Errorf("%s: it says %q, want why the image can't be used", what, r.Err)
	}
	if n := f.started(t) - before; n > 0 {
		t.Errorf("%s: criu was started %d times", what, n)
	}
	v, err := f.View("victim")
	if err != nil {
		t.Fatal(err)
	}
	if v.State != schemas.Suspended || v.Snapshot == nil {
		t.Fatalf("%s: the session is %s, snapshot %v", what, v.State, v.Snapshot)
	}
}
