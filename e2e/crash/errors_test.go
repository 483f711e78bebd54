package crash

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
)

// Between any two steps of a verb an error comes, once each, with real processes: an error
// before the one, and after success of the other. The daemon lives on, and the session is
// whole after any answer of the verb; asked again often enough it does what it was asked for.
func TestErrorsAtFailpoints(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.verb[0], func(t *testing.T) {
			s := stack.New(built.program, t.TempDir())
			s.Dir = built.dir
			s.Env = append(os.Environ(), failpoint.Variable+"="+failing(w.moments))
			if err := s.Up(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("clean up: %v", err)
				}
				if t.Failed() {
					t.Logf("the daemon printed:\n%s", s.Log())
				}
			})
			d := &insistent{t: t, s: s}
			c := d.start("work")
			left := w.moments
			for end := time.Now().Add(2 * time.Minute); ; {
				d.prepare(w)
				r := d.once(w.verb...)
				mustBe(t, settle(t, s, "work"), w.want...)
				d.do("ensure", "work")
				c.check(t, s)
				tidy(t, s)
				audit(t, s)
				left = notSeen(left, s.Log()+d.heard)
				if r.Code == 0 && len(left) == 0 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%v: exit status %d, %s; no error came at %v", w.verb, r.Code, r.Err, left)
				}
			}
			usable(t, s, "work")
		})
	}
}

func failing(at []failpoint.Name) string {
	var all []string
	for _, n := range at {
		all = append(all, string(n)+"=error")
	}
	return strings.Join(all, ";")
}

func notSeen(at []failpoint.Name, said string) []failpoint.Name {
	return slices.DeleteFunc(slices.Clone(at), func(n failpoint.Name) bool {
		return strings.Contains(said, "failpoint "+string(n)+": ")
	})
}

// insistent asks again: each error comes once.
type insistent struct {
	t     *testing.T
	s     *stack.Stack
	heard string // what verbs said that failed
}

func (d *insistent) once(args ...string) stack.Result {
	r := d.s.Do(args...)
	d.heard += r.Err
	return r
}

func (d *insistent) do(args ...string) {
	d.t.Helper()
	var r stack.Result
	for range 10 {
		if r = d.once(args...); r.Code == 0 {
			return
		}
	}
	d.t.Fatalf("%v: exit status %d: %s", args, r.Code, r.Err)
}

func (d *insistent) start(name string) *counter {
	d.t.Helper()
	for range 10 {
		if d.once("run", "--name", name, "--idle", "never", "--", "sh", "-c", program).Code == 0 {
			return &counter{name: name}
		}
		if _, err := d.s.View(name); err != nil {
			continue
		}
		if v := settle(d.t, d.s, name); v.State == schemas.Running {
			return &counter{name: name}
		}
		d.heard += d.s.Do("history", name).Out
		_ = d.once("rm", "--yes", name) // it may be gone by itself
	}
	d.t.Fatalf("session %s doesn't start", name)
	return nil
}

func (d *insistent) prepare(w way) {
	d.t.Helper()
	if w.asleep {
		d.do("suspend", "work")
	}
	if w.verb[0] == "rm" {
		d.start("copy")
	}
}
